package daemon

import (
	"context"

	"perigee"
	"perigee/internal/daemon/gateway"
	"perigee/internal/store/config"
)

// BuildWith has upstreams of a kind built by a test.
func (o *Options) BuildWith(kind string, build func(config.Upstream) perigee.Upstream) {
	o.builders = gateway.Builders()
	o.builders[kind] = func(_ context.Context, _ *gateway.Gateway, e *gateway.Entry) error {
		e.Upstream, e.Summary = build(e.Config), func() string { return "built by a test" }
		return nil
	}
}

// ReadyWithin is Ready with another limit.
var ReadyWithin = readyWithin

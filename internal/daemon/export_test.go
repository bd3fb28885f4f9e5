package daemon

import (
	"context"

	"perigee"
	"perigee/internal/config"
)

// BuildWith has upstreams of a kind built by a test.
func (o *Options) BuildWith(kind string, build func(config.Upstream) perigee.Upstream) {
	o.builders = builders()
	o.builders[kind] = func(_ context.Context, _ *gateway, e *upstreamEntry) error {
		e.upstream, e.summary = build(e.config), func() string { return "built by a test" }
		return nil
	}
}

package daemon

import (
	"cmp"
	"net/url"
	"strconv"

	"perigee/internal/observe/telemetry"
	"perigee/internal/store/config"
)

// applyTelemetry puts the section telemetry of a configuration in force. Without a usable endpoint,
// nothing changes.
func (o *observers) applyTelemetry(cfg *config.Config) {
	t := cfg.Telemetry
	if err := o.telemetry.Apply(telemetry.Settings{Endpoint: t.OTLPEndpoint, Header: t.Header()}); err != nil {
		o.d.opts.Logger.Warn("telemetry not changed", "error", err)
	}
}

// target describes an upstream for a span.
func (o *observers) target(upstream string) telemetry.Target {
	for _, u := range o.d.config().Upstreams {
		if u.Name != upstream {
			continue
		}
		address := cmp.Or(u.URL, u.CloudURL)
		if len(u.Endpoints) > 0 {
			address = u.Endpoints[0]
		}
		t := telemetry.Target{Provider: config.KindOf(u.Kind).Provider}
		if parsed, err := url.Parse(address); err == nil {
			t.Address = parsed.Hostname()
			t.Port, _ = strconv.Atoi(parsed.Port()) // 0 for the port of the scheme
		}
		return t
	}
	// The simulator answers if nothing is configured.
	return telemetry.Target{Provider: config.KindOf(config.KindSimulator).Provider}
}

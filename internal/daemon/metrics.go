package daemon

import (
	"perigee/internal/adapt/models"
	"perigee/internal/observe/metrics"
)

// newMetrics returns the metrics of the daemon. Their values are in memory: a scrape makes no
// calls.
func (o *observers) newMetrics() *metrics.Metrics {
	return metrics.New(metrics.Options{
		Version: o.opts.Version, Logger: o.opts.Logger,
		Known: func(model string) bool {
			_, ok := models.Lookup(model)
			return ok
		},
		Skipped:   func() int64 { return o.traces.Skipped() },
		OpenCalls: o.live.Count, Accounts: o.opts.Accounts, Extserver: o.opts.Extserver, Memory: o.opts.Memory,
		Langservers: o.opts.Langservers,
	})
}

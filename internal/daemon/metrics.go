package daemon

import (
	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/observe/metrics"
)

// newMetrics returns the metrics of the daemon. Their values are in memory: a scrape makes no
// calls.
func (o *observers) newMetrics() *metrics.Metrics {
	return metrics.New(metrics.Options{
		Version: o.d.opts.Version, Logger: o.d.opts.Logger,
		Known: func(model string) bool {
			_, ok := models.Lookup(model)
			return ok
		},
		Skipped:   func() int64 { return o.traces.Skipped() },
		OpenCalls: o.live.Count, Accounts: o.d.countAccounts, Extserver: o.d.extserverRequests,
		Memory:      func() (reserved, limit int64) { return o.d.memory.Used(), o.d.memory.Size() },
		Langservers: func() []perigee.LangserverRow { return o.d.gateway.Langservers() },
	})
}

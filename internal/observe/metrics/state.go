package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"perigee"
)

var (
	openCallsDesc   = prometheus.NewDesc("perigee_open_calls", "Calls that are being answered.", nil, nil)
	accountsDesc    = prometheus.NewDesc("perigee_accounts", "Accounts by state.", []string{"upstream", "state"}, nil)
	coolingDesc     = prometheus.NewDesc("perigee_accounts_cooling", "Enabled accounts that have a cooldown.", []string{"upstream"}, nil)
	langserverDesc  = prometheus.NewDesc("perigee_langserver_state", "1 for the state that the language server is in, 0 for others.", []string{"upstream", "state"}, nil)
	extserverDesc   = prometheus.NewDesc("perigee_extserver_requests_total", "Requests of language servers to the Extension Server.", []string{"method", "code"}, nil)
	memoryDesc      = prometheus.NewDesc("perigee_memory_reserved_bytes", "Memory that open calls have reserved of the budget.", nil, nil)
	skippedDesc     = prometheus.NewDesc("perigee_traces_skipped_total", "Calls that were not traced, to save processor time or disk space.", nil, nil)
	memoryLimitDesc = prometheus.NewDesc("perigee_memory_limit_bytes", "The memory budget, limits.memory.", nil, nil)
)

// The states that are shown for each upstream, even if they are 0: an alert can then distinguish 0
// from missing.
var (
	accountStates = []string{
		perigee.AccountReady, perigee.AccountUntested, perigee.AccountSignedOut, perigee.AccountVerification, perigee.AccountBanned,
		perigee.AccountMisnamed,
	}
	langserverStates = []string{"stopped", "starting", "ready", "restarting", "failed"}
)

// readTime is how long a scrape waits for a part of the state.
const readTime = 2 * time.Second

// A state collects the parts of the state of the daemon at each scrape.
type state []*source

// A send function adds a metric to a scrape.
type send func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string)

func newState(opts Options) state {
	return state{
		{read: func(send send) { send(openCallsDesc, prometheus.GaugeValue, float64(opts.OpenCalls())) }},
		{read: func(send send) { sendAccounts(send, opts.Accounts()) }},
		{read: func(send send) { sendLangservers(send, opts.Langservers()) }},
		{read: func(send send) {
			for method, codes := range opts.Extserver() {
				for code, n := range codes {
					send(extserverDesc, prometheus.CounterValue, float64(n), method, code)
				}
			}
		}},
		{read: func(send send) { send(skippedDesc, prometheus.CounterValue, float64(opts.Skipped())) }},
		{read: func(send send) {
			reserved, limit := opts.Memory()
			send(memoryDesc, prometheus.GaugeValue, float64(reserved))
			send(memoryLimitDesc, prometheus.GaugeValue, float64(limit))
		}},
	}
}

func sendAccounts(send send, list []Accounts) {
	for _, a := range list {
		states := slices.Clone(accountStates)
		for state := range a.States {
			if !slices.Contains(states, state) {
				states = append(states, state)
			}
		}
		for _, state := range states {
			send(accountsDesc, prometheus.GaugeValue, float64(a.States[state]), a.Upstream, state)
		}
		send(accountsDesc, prometheus.GaugeValue, float64(a.Disabled), a.Upstream, "disabled")
		send(coolingDesc, prometheus.GaugeValue, float64(a.Cooling), a.Upstream)
	}
}

func sendLangservers(send send, list []perigee.LangserverRow) {
	for _, l := range list {
		states := langserverStates
		if !slices.Contains(states, l.State) {
			states = append(slices.Clone(states), l.State)
		}
		for _, state := range states {
			value := 0.0
			if state == l.State {
				value = 1
			}
			send(langserverDesc, prometheus.GaugeValue, value, l.Upstream, state)
		}
	}
}

// Describe sends the descriptions of everything that may be collected.
func (s state) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{openCallsDesc, accountsDesc, coolingDesc, langserverDesc, extserverDesc, memoryDesc, memoryLimitDesc, skippedDesc} {
		out <- d
	}
}

// Collect reads the state and sends it. A part that cannot be read in time is left out.
func (s state) Collect(out chan<- prometheus.Metric) {
	for _, part := range s {
		for _, m := range part.get() {
			out <- m
		}
	}
}

// A source reads a part of the state for scrapes that run at the same time, and no more than once
// at a time: a part that hangs costs one goroutine, however often it is scraped.
type source struct {
	read func(send)
	mu   sync.Mutex
	last *reading // the one that is running; nil if there is none
}

type reading struct {
	done    chan struct{}
	metrics []prometheus.Metric // once done is closed
}

// get returns metrics that were read after the call, or by a read that was under way. It returns
// none after readTime.
func (s *source) get() []prometheus.Metric {
	s.mu.Lock()
	r := s.last
	if r == nil {
		r = &reading{done: make(chan struct{})}
		s.last = r
		go func() {
			var list []prometheus.Metric
			s.read(func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
				list = append(list, prometheus.MustNewConstMetric(d, kind, value, labels...))
			})
			s.mu.Lock()
			s.last = nil
			s.mu.Unlock()
			r.metrics = list
			close(r.done)
		}()
	}
	s.mu.Unlock()
	select {
	case <-r.done:
		return r.metrics
	case <-time.After(readTime):
		return nil
	}
}

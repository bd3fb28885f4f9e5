package metrics

import (
	"maps"
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

// A state collects the state of the daemon at each scrape.
type state struct {
	open        *source[int]
	accounts    *source[[]Accounts]
	langservers *source[[]Langserver]
	extserver   *source[map[string]map[string]int64]
	memory      *source[[2]int64]
	skipped     *source[int64]
}

func newState(opts Options) *state {
	s := &state{
		open: newSource(opts.OpenCalls), accounts: newSource(opts.Accounts), langservers: newSource(opts.Langservers),
		extserver: newSource(opts.Extserver), skipped: newSource(opts.Skipped),
	}
	if opts.Memory != nil {
		s.memory = newSource(func() [2]int64 {
			reserved, limit := opts.Memory()
			return [2]int64{reserved, limit}
		})
	}
	return s
}

// Describe sends the descriptions of everything that may be collected.
func (s *state) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{openCallsDesc, accountsDesc, coolingDesc, langserverDesc, extserverDesc, memoryDesc, memoryLimitDesc, skippedDesc} {
		out <- d
	}
}

// Collect reads the state and sends it. A part that cannot be read in time is left out.
func (s *state) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if n, ok := s.open.get(); ok {
		gauge(openCallsDesc, float64(n))
	}
	if list, ok := s.accounts.get(); ok {
		for _, a := range list {
			states := slices.Clone(accountStates)
			for state := range maps.Keys(a.States) {
				if !slices.Contains(states, state) {
					states = append(states, state)
				}
			}
			for _, state := range states {
				gauge(accountsDesc, float64(a.States[state]), a.Upstream, state)
			}
			gauge(accountsDesc, float64(a.Disabled), a.Upstream, "disabled")
			gauge(coolingDesc, float64(a.Cooling), a.Upstream)
		}
	}
	if list, ok := s.langservers.get(); ok {
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
				gauge(langserverDesc, value, l.Upstream, state)
			}
		}
	}
	if methods, ok := s.extserver.get(); ok {
		for method, codes := range methods {
			for code, n := range codes {
				out <- prometheus.MustNewConstMetric(extserverDesc, prometheus.CounterValue, float64(n), method, code)
			}
		}
	}
	if n, ok := s.skipped.get(); ok {
		out <- prometheus.MustNewConstMetric(skippedDesc, prometheus.CounterValue, float64(n))
	}
	if memory, ok := s.memory.get(); ok {
		gauge(memoryDesc, float64(memory[0]))
		gauge(memoryLimitDesc, float64(memory[1]))
	}
}

// A source reads a part of the state for scrapes that run at the same time, and no more than once
// at a time: a part that hangs costs one goroutine, however often it is scraped.
type source[T any] struct {
	read func() T
	mu   sync.Mutex
	last *reading[T] // that is running; nil if there is none
}

type reading[T any] struct {
	done  chan struct{}
	value T // once done is closed
}

func newSource[T any](read func() T) *source[T] {
	if read == nil {
		return nil
	}
	return &source[T]{read: read}
}

// get returns a value that was read after the call, or by a read that was under way. It is not ok
// after readTime.
func (s *source[T]) get() (value T, ok bool) {
	if s == nil {
		return value, false
	}
	s.mu.Lock()
	r := s.last
	if r == nil {
		r = &reading[T]{done: make(chan struct{})}
		s.last = r
		go func() {
			value := s.read()
			s.mu.Lock()
			s.last = nil
			s.mu.Unlock()
			r.value = value
			close(r.done)
		}()
	}
	s.mu.Unlock()
	late := time.NewTimer(readTime)
	defer late.Stop()
	select {
	case <-r.done:
		return r.value, true
	case <-late.C:
		return value, false
	}
}

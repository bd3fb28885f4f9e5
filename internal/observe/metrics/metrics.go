// Package metrics counts finished calls and shows the state of the daemon, in the formats of
// Prometheus. It makes no requests to providers, and has no labels with values that clients choose:
// docs/metrics.md lists names and labels.
package metrics

import (
	"cmp"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"perigee"
	"perigee/internal/server/mount"
)

// Options are the sources of metrics other than calls. Functions are called at each scrape,
// possibly concurrently, and only read memory.
type Options struct {
	Version string
	Logger  *slog.Logger

	// Known reports whether there is a model that has not answered yet. Other models have a label
	// of their own from their first answer on.
	Known func(model string) bool

	OpenCalls   func() int
	Accounts    func() []Accounts
	Langservers func() []perigee.LangserverRow
	Extserver   func() map[string]map[string]int64 // requests to Extension Servers by method and code
	Memory      func() (reserved, limit int64)
	Skipped     func() int64 // calls without a trace
}

// Accounts are the numbers of accounts of an upstream.
type Accounts struct {
	Upstream string
	States   map[string]int // of the enabled ones, by their state
	Disabled int            // by the owner
	Cooling  int            // enabled ones that have a cooldown
}

// The values of labels without a value of their own.
const (
	classOK      = "ok"
	noUpstream   = "none"
	otherModel   = "other"
	maxModels    = 200 // models with a label of their own
	maxScrapes   = 4   // at the same time
	scrapeTime   = 10 * time.Second
	shortestTime = 0.05 // seconds; the smallest bucket
)

// Buckets of times. A model answers in half a second or in minutes; most questions are about the
// range in between.
var (
	firstByteBuckets = []float64{shortestTime, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 20, 40, 80, 120}
	requestBuckets   = []float64{shortestTime, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280}
)

// Metrics count calls. All methods may be called at the same time.
type Metrics struct {
	opts     Options
	registry *prometheus.Registry

	requests  *prometheus.CounterVec
	attempts  *prometheus.CounterVec
	tokens    *prometheus.CounterVec
	cost      *prometheus.CounterVec
	firstByte *prometheus.HistogramVec
	duration  *prometheus.HistogramVec

	mu     sync.Mutex
	models map[string]bool // that have a label of their own
}

// New returns metrics without a call.
func New(opts Options) *Metrics {
	m := &Metrics{opts: opts, registry: prometheus.NewRegistry(), models: map[string]bool{}}
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "perigee_requests_total", Help: "Calls that have ended, by error class; ok is none.",
	}, []string{"dialect", "upstream", "model", "class"})
	m.attempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "perigee_attempts_total", Help: "Attempts of calls at an upstream, by error class; ok is none.",
	}, []string{"upstream", "class"})
	m.tokens = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "perigee_tokens_total", Help: "Tokens of calls. Cached and written ones are part of input, thinking is part of output.",
	}, []string{"upstream", "model", "kind"})
	m.cost = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "perigee_cost_usd_total", Help: "Cost of calls in US dollars: as the provider reports it, or at list prices of models whose price is known.",
	}, []string{"upstream", "model"})
	m.firstByte = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "perigee_first_byte_seconds", Help: "Time from a request to the first event of its answer.", Buckets: firstByteBuckets,
	}, []string{"dialect", "upstream"})
	m.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "perigee_request_seconds", Help: "Time from a request to the end of its answer.", Buckets: requestBuckets,
	}, []string{"dialect", "upstream"})
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "perigee_build_info", Help: "Version of perigee and of Go, in labels.",
		ConstLabels: prometheus.Labels{"version": strings.ToValidUTF8(opts.Version, "?"), "goversion": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(m.requests, m.attempts, m.tokens, m.cost, m.firstByte, m.duration, build, newState(opts),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Observe counts a call that has ended.
func (m *Metrics) Observe(c *perigee.Call) {
	if c.Operation == perigee.OperationInfo {
		return // it asks no model
	}
	dialect, upstream, model := cmp.Or(string(c.Dialect), "none"), cmp.Or(c.Upstream, noUpstream), m.model(c)
	m.requests.WithLabelValues(dialect, upstream, model, class(c.Class)).Inc()
	attempts := c.Attempts
	if len(attempts) == 0 && c.Upstream != "" { // a call that the first attempt has answered records none
		attempts = []perigee.Attempt{{Upstream: c.Upstream, Class: c.Class}}
	}
	for i := range attempts {
		a := &attempts[i]
		m.attempts.WithLabelValues(cmp.Or(a.Upstream, noUpstream), class(a.Class)).Inc()
	}
	call := prometheus.Labels{"call_id": c.ID}
	observe(m.duration.WithLabelValues(dialect, upstream), c.Duration, call)
	if c.FirstByte > 0 {
		observe(m.firstByte.WithLabelValues(dialect, upstream), c.FirstByte, call)
	}
	for _, t := range [...]struct {
		kind   string
		number int64
	}{{"input", c.Usage.Input}, {"cached", c.Usage.Cached}, {"written", c.Usage.Written}, {"output", c.Usage.Output}, {"thinking", c.Usage.Thinking}} {
		if c.Usage != (perigee.Usage{}) { // all kinds, so that rates of those that are rare have a beginning
			m.tokens.WithLabelValues(upstream, model, t.kind).Add(float64(t.number))
		}
	}
	if c.Cost.USD > 0 {
		m.cost.WithLabelValues(upstream, model).Add(c.Cost.USD)
	}
}

// Refused counts a request for a model that was refused and is not recorded as a call, such as one
// with a wrong key.
func (m *Metrics) Refused(dialect perigee.Dialect, c perigee.Class) {
	m.requests.WithLabelValues(cmp.Or(string(dialect), "none"), noUpstream, otherModel, class(c)).Inc()
}

func class(c perigee.Class) string { return cmp.Or(string(c), classOK) }

// maxExemplar is the number of characters that OpenMetrics allows in an exemplar.
const maxExemplar = prometheus.ExemplarMaxRunes

// observe adds a time to a histogram, with the ID of the call as an exemplar. Only OpenMetrics
// shows it.
func observe(h prometheus.Observer, d time.Duration, call prometheus.Labels) {
	exemplar, ok := h.(prometheus.ExemplarObserver)
	if id := call["call_id"]; !ok || id == "" || len(id)+len("call_id") > maxExemplar {
		h.Observe(d.Seconds())
		return
	}
	exemplar.ObserveWithExemplar(d.Seconds(), call)
}

// model is the label of the model of a call: the one that answered, or else the one that was asked
// for, if it is known to exist. A client can ask for any name, so a name that has not answered is
// not taken from it.
func (m *Metrics) model(c *perigee.Call) string {
	name := strings.ToValidUTF8(cmp.Or(c.Model, c.ModelAsked), "?")
	if name == "" {
		return otherModel
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.models[name] {
		return name
	}
	answered := c.Upstream != "" && c.Model != "" && (c.Outcome == perigee.OutcomeDone || c.FirstByte > 0)
	if len(m.models) >= maxModels || !answered && !m.opts.Known(name) {
		return otherModel
	}
	m.models[name] = true
	return name
}

// Handler answers scrapes in the format that Accept asks for: Prometheus text, OpenMetrics or
// protocol buffers.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: scrapeLog{m.opts.Logger}, ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true,
		MaxRequestsInFlight: maxScrapes, Timeout: scrapeTime,
	})
}

// Point returns the path of the metrics.
func (m *Metrics) Point() mount.Point {
	h := m.Handler()
	return mount.Methods{http.MethodGet: func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
		return nil
	}}.At("/metrics", mount.ClientOrOwner)
}

// A scrapeLog logs errors of scrapes.
type scrapeLog struct{ logger *slog.Logger }

func (l scrapeLog) Println(v ...any) {
	for _, v := range v {
		if err, ok := v.(error); ok {
			l.logger.Warn("metrics incomplete", "error", err)
		}
	}
}

// Package telemetry sends a trace of each call to an OpenTelemetry collector: a span for the call,
// with the attributes of the GenAI conventions, and a span for each attempt. Spans have no prompts,
// no answers, no accounts and no messages of errors.
//
// It neither delays a call nor fails one: spans wait in a bounded queue, and are dropped if the
// collector does not keep up.
package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"perigee"
)

const (
	queueSize  = 2048             // spans; further ones are dropped
	batchSize  = 512              // spans in a request
	batchTime  = 5 * time.Second  // a span waits at most so long
	exportTime = 10 * time.Second // for a batch, retries included
	stopTime   = 3 * time.Second  // to send queued spans when telemetry ends
)

// Options are the data of spans other than calls.
type Options struct {
	Version string
	Now     func() time.Time
	Logger  *slog.Logger
	// Target describes an upstream.
	Target func(upstream string) Target

	transport http.RoundTripper // to the collector; nil means a new one
}

// A Target is the provider behind an upstream, in the terms of the conventions.
type Target struct {
	Provider string // "gcp.gemini"; empty if unknown
	Address  string // the host that requests are sent to; empty if unknown
	Port     int    // 0 if unknown
}

// Settings are the destination of spans.
type Settings struct {
	Endpoint string      // the URL of a collector; if empty, nothing is sent
	Header   http.Header // further headers for the collector; they may be credentials
}

func (s Settings) equal(o Settings) bool {
	return s.Endpoint == o.Endpoint && maps.EqualFunc(s.Header, o.Header, slices.Equal)
}

// A Telemetry sends spans. Without an endpoint it does nothing. Close it after the last call.
type Telemetry struct {
	opts     Options
	applying sync.Mutex // held while settings change
	set      Settings
	mu       sync.RWMutex   // held for reading while spans are queued, so that no sender ends meanwhile
	current  *sender        // nil if off
	ending   sync.WaitGroup // previous senders
}

// A sender is the queue to one collector.
type sender struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// New returns a Telemetry that is off.
func New(opts Options) *Telemetry { return &Telemetry{opts: opts} }

// Apply puts settings in force. Spans that are queued are still sent where they were meant to go,
// in the background.
func (t *Telemetry) Apply(set Settings) error {
	t.applying.Lock()
	defer t.applying.Unlock()
	if set.equal(t.set) {
		return nil
	}
	var next *sender
	if set.Endpoint != "" {
		var err error
		if next, err = t.newSender(set); err != nil {
			return err
		}
	}
	t.set = set
	if old := t.replace(next); old != nil {
		t.ending.Go(func() { _ = old.stop(context.Background()) })
	}
	return nil
}

// replace sets the sender that is current, and returns the one that was.
func (t *Telemetry) replace(next *sender) (old *sender) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, t.current = t.current, next
	return old
}

func (t *Telemetry) newSender(set Settings) (*sender, error) {
	c, err := newCollector(set, t.opts)
	if err != nil {
		return nil, err
	}
	exporter := quiet{otlptrace.NewUnstarted(c), c}
	own := resource.NewSchemaless(
		attribute.String("service.name", "perigee"), attribute.String("service.version", t.opts.Version),
		attribute.String("telemetry.sdk.name", "opentelemetry"), attribute.String("telemetry.sdk.language", "go"),
	)
	described := own
	if environment, err := resource.New(context.Background(), resource.WithFromEnv()); err == nil { // OTEL_RESOURCE_ATTRIBUTES
		if merged, err := resource.Merge(own, environment); err == nil {
			described = merged
		}
	}
	provider := sdk.NewTracerProvider(
		sdk.WithResource(described),
		sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample())), // a client that traces decides for its calls
		sdk.WithBatcher(exporter, sdk.WithMaxQueueSize(queueSize), sdk.WithMaxExportBatchSize(batchSize),
			sdk.WithBatchTimeout(batchTime), sdk.WithExportTimeout(exportTime)),
	)
	return &sender{provider, provider.Tracer("perigee", trace.WithInstrumentationVersion(t.opts.Version))}, nil
}

// stop sends queued spans, for a limited time.
func (s *sender) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	return s.provider.Shutdown(ctx)
}

// Close sends queued spans, for at most three seconds, or until ctx ends.
func (t *Telemetry) Close(ctx context.Context) error {
	t.applying.Lock()
	last := t.replace(nil)
	t.set = Settings{}
	t.applying.Unlock()
	var err error
	if last != nil {
		err = last.stop(ctx)
	}
	t.ending.Wait() // each takes no longer than stopTime
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return perigee.Errorf(perigee.ClassUnavailable, "spans were not sent: the OpenTelemetry collector does not answer")
	}
	return err
}

// quiet is an exporter that hides errors from the SDK, which would write them to stderr. The
// collector logs them.
type quiet struct {
	*otlptrace.Exporter
	collector *collector
}

// ExportSpans sends spans, or drops them.
func (q quiet) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := q.Exporter.ExportSpans(ctx, spans); err != nil {
		q.collector.failed(err, len(spans))
	}
	return nil
}

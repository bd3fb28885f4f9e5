package telemetry

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"perigee"
)

// Watch is for record.Options. It returns nil while nothing is sent. If the request has a
// traceparent, the span is a part of that trace.
func (t *Telemetry) Watch(_ *perigee.Call, origin *perigee.Origin) perigee.Watcher {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.current == nil {
		return nil
	}
	return &watcher{telemetry: t, parent: parentOf(origin.Header)}
}

// parentOf is the span that a client has sent its request in; without one, or with a traceparent
// that is none, it is invalid.
func parentOf(h http.Header) trace.SpanContext {
	if h.Get("Traceparent") == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(h)))
}

// A watcher makes the spans of one call when it has ended.
type watcher struct {
	telemetry *Telemetry
	parent    trace.SpanContext

	mu    sync.Mutex
	ended []time.Time // when the attempts have
}

// Body does nothing: spans have no bodies.
func (w *watcher) Body(perigee.TapPoint, ...[]byte) {}

// Event does nothing.
func (w *watcher) Event(*perigee.Event) {}

// Done does nothing.
func (w *watcher) Done() {}

// ProviderEndpoint does nothing.
func (w *watcher) ProviderEndpoint(string) {}

// ProviderStatus does nothing.
func (w *watcher) ProviderStatus(int) {}

// Attempted records when an attempt has ended.
func (w *watcher) Attempted(*perigee.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, w.telemetry.opts.Now())
}

// Ended queues the spans of a call.
func (w *watcher) Ended(c *perigee.Call) {
	w.telemetry.mu.RLock()
	defer w.telemetry.mu.RUnlock()
	s := w.telemetry.current
	if s == nil {
		return
	}
	end := c.Time.Add(c.Duration)
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), w.parent)
	ctx, span := s.tracer.Start(ctx, name(c), trace.WithTimestamp(c.Time), trace.WithSpanKind(trace.SpanKindClient))
	defer span.End(trace.WithTimestamp(end))
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(w.attributes(c)...)
	if c.Class != "" {
		span.SetStatus(codes.Error, string(c.Class))
	}
	w.mu.Lock()
	ended := w.ended
	w.mu.Unlock()
	began := c.Time
	for i := range c.Attempts {
		a := &c.Attempts[i]
		until := end
		switch {
		case i < len(ended):
			until = ended[i]
			began = latest(began, until.Add(-a.Took))
		case a.Took > 0:
			until = began.Add(min(a.Took, end.Sub(began)))
		}
		w.attempt(ctx, s, a, began, until)
		began = until
	}
}

// attempt queues the span of an attempt.
func (w *watcher) attempt(ctx context.Context, s *sender, a *perigee.Attempt, began, ended time.Time) {
	_, span := s.tracer.Start(ctx, "attempt "+cmp.Or(a.Upstream, "none"), trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindClient))
	span.SetAttributes(attribute.String("perigee.upstream", a.Upstream))
	span.SetAttributes(w.target(a.Upstream)...)
	if a.Class != "" {
		span.SetAttributes(attribute.String("error.type", string(a.Class)))
		span.SetStatus(codes.Error, string(a.Class))
	}
	span.End(trace.WithTimestamp(latest(began, ended)))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// operation is the operation of a call in the terms of the conventions.
func operation(c *perigee.Call) string {
	switch {
	case c.Operation == perigee.OperationEmbed:
		return "embeddings"
	case c.Operation == perigee.OperationCount:
		return "count_tokens" // the conventions have no name for it
	case c.Operation == perigee.OperationInfo:
		return perigee.OperationInfo // nor for this
	case c.Dialect == perigee.DialectGemini, c.Dialect == perigee.DialectCloudCode:
		return "generate_content"
	}
	return "chat"
}

// name is the name of a span: the operation and the model. The name of a model that has not
// answered is chosen by the client, and names of spans have few values.
func name(c *perigee.Call) string {
	if c.Model == "" {
		return operation(c)
	}
	return operation(c) + " " + c.Model
}

// attributes returns the attributes of the GenAI conventions, as far as they are known, and a few
// of perigee's own.
func (w *watcher) attributes(c *perigee.Call) []attribute.KeyValue {
	list := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", operation(c)),
		attribute.String("perigee.call.id", c.ID),
		attribute.String("perigee.dialect", string(c.Dialect)),
		attribute.String("perigee.outcome", string(c.Outcome)),
	}
	text := func(key, value string) {
		if value != "" {
			list = append(list, attribute.String(key, strings.ToValidUTF8(value, "?")))
		}
	}
	number := func(key string, value int64) {
		if value > 0 {
			list = append(list, attribute.Int64(key, value))
		}
	}
	list = append(list, w.target(c.Upstream)...)
	text("gen_ai.request.model", c.ModelAsked)
	text("gen_ai.response.model", c.Model)
	text("gen_ai.conversation.id", c.Client.Session)
	text("perigee.upstream", c.Upstream)
	text("perigee.client.name", c.Client.Name)
	text("perigee.key", c.Client.Key)
	text("error.type", string(c.Class))
	if c.Operation == perigee.OperationGenerate {
		list = append(list, attribute.Bool("gen_ai.request.stream", c.Stream))
	}
	if c.Finish != "" {
		list = append(list, attribute.StringSlice("gen_ai.response.finish_reasons", []string{c.Finish}))
	}
	if c.FirstByte > 0 && c.Stream {
		list = append(list, attribute.Float64("gen_ai.response.time_to_first_chunk", c.FirstByte.Seconds()))
	}
	number("gen_ai.usage.input_tokens", c.Usage.Input)
	number("gen_ai.usage.output_tokens", c.Usage.Output)
	number("gen_ai.usage.cache_read.input_tokens", c.Usage.Cached)
	number("gen_ai.usage.cache_creation.input_tokens", c.Usage.Written)
	number("gen_ai.usage.reasoning.output_tokens", c.Usage.Thinking)
	number("http.response.status_code", int64(c.ClientStatus))
	return list
}

// target are the attributes of the provider behind an upstream.
func (w *watcher) target(upstream string) (list []attribute.KeyValue) {
	if upstream == "" {
		return nil
	}
	target := w.telemetry.opts.Target(upstream)
	if target.Provider != "" {
		list = append(list, attribute.String("gen_ai.provider.name", target.Provider))
	}
	if target.Address != "" {
		list = append(list, attribute.String("server.address", target.Address))
	}
	if target.Port > 0 {
		list = append(list, attribute.Int("server.port", target.Port))
	}
	return list
}

package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

// A collectorRig is an OpenTelemetry collector.
type collectorRig struct {
	*httptest.Server
	t      *testing.T
	mu     sync.Mutex
	answer func(request int) (status int, header http.Header, body []byte) // nil means 200
	heads  []http.Header
	paths  []string
	data   []*tracepb.TracesData
	raw    bytes.Buffer // of all requests, decompressed
}

func newCollectorRig(t *testing.T) *collectorRig {
	t.Helper()
	c := &collectorRig{t: t}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collectorRig) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	zip, err := gzip.NewReader(r.Body)
	if err != nil {
		c.t.Error(err)
		return
	}
	raw, err := io.ReadAll(zip)
	if err != nil {
		c.t.Error(err)
	}
	var data tracepb.TracesData
	if err := proto.Unmarshal(raw, &data); err != nil {
		c.t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heads, c.paths = append(c.heads, r.Header), append(c.paths, r.Method+" "+r.URL.Path)
	status, header, body := http.StatusOK, http.Header(nil), []byte(nil)
	if c.answer != nil {
		status, header, body = c.answer(len(c.heads))
	}
	if status == http.StatusOK {
		c.data = append(c.data, &data)
		c.raw.Write(raw)
	}
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// spans are those that were accepted, in the order of their beginnings.
func (c *collectorRig) spans() (list []*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.data {
		for _, r := range d.GetResourceSpans() {
			for _, s := range r.GetScopeSpans() {
				list = append(list, s.GetSpans()...)
			}
		}
	}
	return list
}

func attributes(list []*commonpb.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range list {
		switch v := kv.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			m[kv.GetKey()] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			m[kv.GetKey()] = fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_BoolValue:
			m[kv.GetKey()] = fmt.Sprint(v.BoolValue)
		case *commonpb.AnyValue_DoubleValue:
			m[kv.GetKey()] = fmt.Sprint(v.DoubleValue)
		case *commonpb.AnyValue_ArrayValue:
			for _, e := range v.ArrayValue.GetValues() {
				m[kv.GetKey()] += "[" + e.GetStringValue() + "]"
			}
		}
	}
	return m
}

// A logRig collects log lines.
type logRig struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logRig) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logRig) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// newTelemetry returns a Telemetry that sends to an endpoint.
func newTelemetry(t *testing.T, endpoint string, header http.Header) (*Telemetry, *logRig) {
	t.Helper()
	return newTelemetryOver(t, nil, endpoint, header)
}

func newTelemetryOver(t *testing.T, transport http.RoundTripper, endpoint string, header http.Header) (*Telemetry, *logRig) {
	t.Helper()
	log := &logRig{}
	tel := New(Options{transport: transport, Version: "1.2.3", Now: time.Now, Logger: slog.New(slog.NewTextHandler(log, nil)), Target: func(upstream string) Target {
		return Target{Provider: "gcp.gemini", Address: upstream + ".example.com", Port: 443}
	}})
	if err := tel.Apply(Settings{endpoint, header}); err != nil {
		t.Fatal(err)
	}
	return tel, log
}

// roundTrip answers requests without a connection.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// follow has a call followed from its beginning to its end.
func follow(tel *Telemetry, c *perigee.Call, header http.Header) {
	w := tel.Watch(c, &perigee.Origin{Header: header, Body: []byte("a canary in the body")})
	if w == nil {
		return
	}
	w.Body(perigee.TapClientRequest, []byte("a canary in the body"))
	w.Event(&perigee.Event{Kind: perigee.EventText, Text: "a canary in the answer"})
	for i := range c.Attempts[:max(0, len(c.Attempts)-1)] {
		w.(perigee.AttemptTap).Attempted(&c.Attempts[i])
	}
	w.Ended(c)
	w.Done()
}

func answered() *perigee.Call {
	return &perigee.Call{
		ID: "call-1", Time: time.Now().Add(-4 * time.Second), Operation: perigee.OperationGenerate, Dialect: perigee.DialectAnthropic, Stream: true,
		Client: perigee.Client{Name: "claude-cli", Key: "laptop", Session: "session-1"}, ModelAsked: "sonnet", Model: "claude-sonnet-4-6",
		Upstream: "gravity", Account: "canary@example.com", Outcome: perigee.OutcomeDone, ClientStatus: 200, Finish: "STOP",
		FirstByte: 1500 * time.Millisecond, Duration: 4 * time.Second, Error: "",
		Usage: perigee.Usage{Input: 100, Cached: 40, Output: 20, Thinking: 5},
		Attempts: []perigee.Attempt{
			{Upstream: "studio", Account: "canary@example.com", Class: perigee.ClassExhausted, Error: "a canary in the error", Took: time.Second},
			{Upstream: "gravity", Took: 3 * time.Second},
		},
	}
}

func TestSpansOfACall(t *testing.T) {
	c := newCollectorRig(t)
	tel, log := newTelemetry(t, c.URL+"/otlp", http.Header{"Authorization": {"Bearer canary-token"}, "X-Tenant": {"blue"}})
	follow(tel, answered(), http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}})
	if err := tel.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(c.paths) != 1 || c.paths[0] != "POST /otlp/v1/traces" {
		t.Fatalf("requests %q", c.paths)
	}
	if h := c.heads[0]; h.Get("Authorization") != "Bearer canary-token" || h.Get("X-Tenant") != "blue" ||
		h.Get("Content-Type") != "application/x-protobuf" || h.Get("User-Agent") != "perigee/1.2.3" {
		t.Errorf("header %v", h)
	}
	spans := c.spans()
	if len(spans) != 3 {
		t.Fatalf("%d spans", len(spans))
	}
	call, first, second := spans[2], spans[0], spans[1] // spans are sent in the order of their ends
	if call.GetName() != "chat claude-sonnet-4-6" || call.GetKind() != tracepb.Span_SPAN_KIND_CLIENT ||
		fmt.Sprintf("%x", call.GetTraceId()) != "0af7651916cd43dd8448eb211c80319c" || fmt.Sprintf("%x", call.GetParentSpanId()) != "b7ad6b7169203331" ||
		call.GetEndTimeUnixNano()-call.GetStartTimeUnixNano() != uint64(4*time.Second) || call.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_UNSET {
		t.Errorf("the span of the call is %v", call)
	}
	got := attributes(call.GetAttributes())
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "sonnet",
		"gen_ai.response.model": "claude-sonnet-4-6", "gen_ai.conversation.id": "session-1", "gen_ai.request.stream": "true",
		"gen_ai.response.finish_reasons": "[STOP]", "gen_ai.response.time_to_first_chunk": "1.5",
		"gen_ai.usage.input_tokens": "100", "gen_ai.usage.output_tokens": "20", "gen_ai.usage.cache_read.input_tokens": "40",
		"gen_ai.usage.reasoning.output_tokens": "5", "server.address": "gravity.example.com", "server.port": "443",
		"http.response.status_code": "200", "perigee.call.id": "call-1", "perigee.dialect": "anthropic", "perigee.outcome": "done",
		"perigee.upstream": "gravity", "perigee.client.name": "claude-cli", "perigee.key": "laptop",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
		delete(got, key)
	}
	if len(got) > 0 {
		t.Errorf("further attributes %v", got)
	}
	for i, attempt := range []*tracepb.Span{first, second} {
		if !bytes.Equal(attempt.GetParentSpanId(), call.GetSpanId()) || attempt.GetStartTimeUnixNano() < call.GetStartTimeUnixNano() ||
			attempt.GetName() != "attempt "+[]string{"studio", "gravity"}[i] {
			t.Errorf("attempt %d is %v", i+1, attempt)
		}
	}
	if first.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR || attributes(first.GetAttributes())["error.type"] != "exhausted" ||
		attributes(second.GetAttributes())["error.type"] != "" || first.GetEndTimeUnixNano() > second.GetStartTimeUnixNano() {
		t.Errorf("attempts %v and %v", first, second)
	}
	resource := attributes(c.data[0].GetResourceSpans()[0].GetResource().GetAttributes())
	if resource["service.name"] != "perigee" || resource["service.version"] != "1.2.3" {
		t.Errorf("resource %v", resource)
	}
	if strings.Contains(c.raw.String(), "canary") || strings.Contains(log.String(), "canary") {
		t.Errorf("something secret was sent or logged: %q, %s", c.raw.String(), log)
	}
}

func TestSpansOfOtherCalls(t *testing.T) {
	c := newCollectorRig(t)
	tel, _ := newTelemetry(t, c.URL, nil)
	for _, call := range []perigee.Call{
		{Operation: perigee.OperationEmbed, Model: "embedding-1", Outcome: perigee.OutcomeDone},
		{Operation: perigee.OperationCount, Dialect: perigee.DialectGemini},
		{Operation: perigee.OperationGenerate, Dialect: perigee.DialectGemini, ModelAsked: "any\xffthing", Class: perigee.ClassNotFound, Error: "no such model"},
	} {
		follow(tel, &call, http.Header{"Traceparent": {"nonsense"}})
	}
	unsampled := http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}}
	follow(tel, answered(), unsampled) // the client does not want it traced
	if err := tel.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := c.spans()
	if len(spans) != 3 || spans[0].GetName() != "embeddings embedding-1" || spans[1].GetName() != "count_tokens" || spans[2].GetName() != "generate_content" {
		t.Fatalf("spans %v", spans)
	}
	failed := attributes(spans[2].GetAttributes())
	if spans[2].GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR || failed["error.type"] != "not_found" ||
		failed["gen_ai.request.model"] != "any?thing" || len(spans[2].GetParentSpanId()) != 0 {
		t.Errorf("a failed call is %v", spans[2])
	}
}

func TestNothingIsFollowedWithoutAnEndpoint(t *testing.T) {
	tel := New(Options{})
	if w := tel.Watch(answered(), &perigee.Origin{}); w != nil {
		t.Error("a call is followed")
	}
	if err := tel.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A collector that does not answer costs spans, and nothing else: calls end at once, and the end of
// the process waits for three seconds.
func TestACollectorThatHangsDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, _ := newTelemetryOver(t, roundTrip(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}), "http://collector.example", nil)
		began := time.Now()
		for range 3 * queueSize {
			follow(tel, answered(), nil)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("%d calls took %v", 3*queueSize, took)
		}
		if err := tel.Close(context.Background()); err == nil || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(began); took != stopTime {
			t.Errorf("close took %v", took)
		}
		time.Sleep(10 * exportTime) // the SDK gives up what it was sending
	})
}

func TestFailuresAreLoggedOnceAMinute(t *testing.T) {
	log := &logRig{}
	now := time.Now()
	c, err := newCollector(Settings{Endpoint: "http://127.0.0.1:1"}, Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		c.failed(context.DeadlineExceeded, 5)
	}
	if n := strings.Count(log.String(), "spans were not sent"); n != 1 {
		t.Errorf("%d lines: %s", n, log)
	}
	now = now.Add(logPause)
	c.failed(context.DeadlineExceeded, 5)
	if !strings.Contains(log.String(), "spans=50") {
		t.Errorf("the second line does not have what was lost since the first: %s", log)
	}
	if err := c.accepted(nil); err != nil || !strings.Contains(log.String(), "spans are accepted again") {
		t.Errorf("%v: %s", err, log)
	}
}

// An overloaded collector gets spans again. One that refuses them does not.
func TestSpansAreSentAgain(t *testing.T) {
	rejected := protowire.AppendTag(nil, 1, protowire.BytesType)
	rejected = protowire.AppendBytes(rejected, append(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 3), "\x12\x06canary"...))
	for name, test := range map[string]struct {
		statuses []int
		body     []byte
		requests int
		spans    int
		log      string
	}{
		"overloaded": {[]int{503, 429, 200}, nil, 3, 3, ""},
		"refused":    {[]int{401}, []byte("canary"), 1, 0, "the collector answered 401 Unauthorized"},
		"moved":      {[]int{302}, nil, 1, 0, "the collector answered 302 Found"},
		"rejected":   {[]int{200}, rejected, 1, 3, "the collector rejected 3 spans"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &collectorRig{t: t, answer: func(request int) (int, http.Header, []byte) {
					return test.statuses[min(request, len(test.statuses))-1], http.Header{"Location": {"/elsewhere"}}, test.body
				}}
				tel, log := newTelemetryOver(t, roundTrip(func(req *http.Request) (*http.Response, error) {
					w := httptest.NewRecorder()
					c.ServeHTTP(w, req)
					return w.Result(), nil
				}), "http://collector.example", nil)
				follow(tel, answered(), nil)
				if err := tel.current.provider.ForceFlush(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := tel.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if len(c.heads) != test.requests || len(c.spans()) != test.spans || (test.log == "") != (log.String() == "") || !strings.Contains(log.String(), test.log) ||
					strings.Contains(log.String(), "canary") {
					t.Errorf("%d requests, %d spans: %s", len(c.heads), len(c.spans()), log)
				}
			})
		})
	}
}

// After a change of settings, queued spans still go where they were meant to go.
func TestSettingsCanChange(t *testing.T) {
	first, second := newCollectorRig(t), newCollectorRig(t)
	tel, _ := newTelemetry(t, first.URL, nil)
	follow(tel, answered(), nil)
	before := tel.current
	if err := tel.Apply(Settings{Endpoint: first.URL}); err != nil || tel.current != before {
		t.Errorf("the same settings change something: %v", err)
	}
	if err := tel.Apply(Settings{Endpoint: "::"}); err == nil || tel.current != before {
		t.Errorf("wrong settings are put in force: %v", err)
	}
	if err := tel.Apply(Settings{Endpoint: second.URL}); err != nil {
		t.Fatal(err)
	}
	follow(tel, answered(), nil)
	follow(tel, answered(), nil)
	if err := tel.Apply(Settings{}); err != nil {
		t.Fatal(err)
	}
	follow(tel, answered(), nil)
	if err := tel.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(first.spans()) != 3 || len(second.spans()) != 6 {
		t.Errorf("%d and %d spans", len(first.spans()), len(second.spans()))
	}
}

func TestEndpoints(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://127.0.0.1:4318": "http://127.0.0.1:4318/v1/traces", "https://x.example/otlp/": "https://x.example/otlp/v1/traces",
		"https://x.example/v1/traces": "https://x.example/v1/traces", "https://x.example/?a=b": "https://x.example/v1/traces?a=b", "": "", "x": "",
	} {
		if got, err := tracesURL(endpoint); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v", endpoint, got, err)
		}
	}
}

func TestCallsAndChangesAtTheSameTime(t *testing.T) {
	c := newCollectorRig(t)
	tel, _ := newTelemetry(t, c.URL, nil)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				follow(tel, answered(), nil)
				if j%10 == 0 {
					_ = tel.Apply(Settings{Endpoint: fmt.Sprint(c.URL, "/", (i+j)%3)})
				}
			}
		})
	}
	await.Return(t, wg.Wait, "the calls")
	if err := tel.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(c.spans()); n != 600 {
		t.Errorf("%d spans, want 600", n)
	}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"perigee/bench/internal/measure"
	"perigee/internal/route"
	"perigee/internal/route/thoughtsig"
	"perigee/internal/server"
	upstream "perigee/internal/upstream/api"
)

// An allocation is what perigee's own code allocates for one call.
type allocation struct {
	dialect string
	size    int // of the body
	number  int64
	bytes   int64
}

// measureAllocations counts in this process, since only the runtime itself knows. The call takes
// the daemon's way from the body to the answer, without the parts that are net/http's (connections,
// parsing of headers) and without the record, which works beside the call.
func (b *bench) measureAllocations(ctx context.Context) error {
	house, err := newHouse()
	if err != nil {
		return err
	}
	dir, err := sourceDir(ctx)
	if err != nil {
		return err
	}
	names, questions, err := capturedQuestions(dir)
	if err != nil {
		return err
	}
	for _, size := range b.plan.allocSizes {
		for _, d := range dialects {
			names = append(names, d.name)
			questions = append(questions, newQuestion(d, quickModel, size))
		}
	}
	for i, q := range questions {
		number, bytes, err := countAllocations(ctx, house, q)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", names[i], measure.BytesText(int64(len(q.body))), err)
		}
		b.report.allocations = append(b.report.allocations, allocation{names[i], len(q.body), number, bytes})
	}
	return nil
}

// countAllocations makes one call again and again.
func countAllocations(ctx context.Context, house http.Handler, q question) (number, bytes int64, err error) {
	into := &answerInMemory{header: http.Header{}}
	if err := askHouse(ctx, house, q, into); err != nil {
		return 0, 0, err
	}
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := askHouse(ctx, house, q, into); err != nil {
				b.Fatal(err)
			}
		}
	})
	if result.N == 0 {
		return 0, 0, errors.Join(errors.New("a call failed that went well before"), ctx.Err())
	}
	return result.AllocsPerOp(), result.AllocedBytesPerOp(), ctx.Err()
}

// newHouse is perigee without sockets: dialects, routing, signatures and the Gemini upstream, whose
// provider answers from memory.
func newHouse() (http.Handler, error) {
	provider := upstream.New(upstream.Gemini, upstream.Options{Name: "provider", URL: "http://provider.invalid", Transport: providerInMemory{}})
	seals := thoughtsig.NewMemory(thoughtsig.Options{})
	router, err := route.New(route.Options{Targets: []route.Target{{Name: "provider", Upstream: seals.Around(provider)}}})
	if err != nil {
		return nil, err
	}
	return server.New(server.Options{Upstream: router}, server.Settings{MaxBody: 64 << 20}), nil
}

// askHouse makes one call and insists on the right answer.
func askHouse(ctx context.Context, house http.Handler, q question, into *answerInMemory) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+q.dialect.url(q.model), bytes.NewReader(q.body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	into.clear()
	house.ServeHTTP(into, r)
	return q.dialect.check(into.body.Bytes())
}

// providerInMemory answers as the provider does, at once.
type providerInMemory struct{}

var allChunks = bytes.Join(answerChunks, nil)

func (providerInMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(bytes.NewReader(allChunks)), Request: r,
	}, nil
}

// answerInMemory keeps an answer, and its room for the next one.
type answerInMemory struct {
	header http.Header
	body   bytes.Buffer
}

func (w *answerInMemory) clear() {
	clear(w.header)
	w.body.Reset()
}

func (w *answerInMemory) Header() http.Header         { return w.header }
func (w *answerInMemory) WriteHeader(int)             {}
func (w *answerInMemory) Write(b []byte) (int, error) { return w.body.Write(b) }
func (w *answerInMemory) Flush()                      {}

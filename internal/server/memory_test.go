package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/server"
	"perigee/internal/server/membudget"
	"perigee/internal/testing/perigeetest/await"
)

const mb = 1 << 20

// A question is an upstream that is told what it is asked.
type question func(ctx context.Context, req *perigee.Request, yield func(perigee.Event, error) bool)

func (q question) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) { q(ctx, req, yield) }
}

// A memoryRig is a server with a budget, whose upstream answers when the test says so.
type memoryRig struct {
	*socketRig
	budget *membudget.Budget
	asked  chan *perigee.Request // has each request that has reached the upstream
	goOn   chan struct{}         // closed: answers may begin
}

// openMemory starts one inside a bubble.
func openMemory(t *testing.T, size int64, settings server.Settings, change ...func(*server.Options)) *memoryRig {
	t.Helper()
	t.Cleanup(func() { time.Sleep(time.Minute) }) // until the server has closed its connections
	r := &memoryRig{budget: membudget.New(size, nil), asked: make(chan *perigee.Request, 100), goOn: make(chan struct{})}
	upstream := question(func(ctx context.Context, req *perigee.Request, yield func(perigee.Event, error) bool) {
		r.asked <- req
		select {
		case <-r.goOn:
		case <-ctx.Done():
			return
		}
		_ = yield(begin, nil) && yield(perigee.Event{Kind: perigee.EventText, Text: "ok"}, nil) && yield(end, nil)
	})
	if settings.MaxBody == 0 {
		settings.MaxBody = 64 * mb
	}
	r.socketRig = newSocketRig(t, upstream, settings, func(o *server.Options) {
		o.Memory = r.budget
		o.Responses = &storeRig{}
		for _, f := range change {
			f(o)
		}
	})
	return r
}

// send writes a request and returns the connection and its reader.
func (r *memoryRig) send(t *testing.T, format string, args ...any) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := r.pipes.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	text := fmt.Sprintf(format, args...)
	go func() { _, _ = io.WriteString(conn, text) }()
	return conn, bufio.NewReader(conn)
}

func answerOn(t *testing.T, reader *bufio.Reader) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// fill has calls with 8 MB of body in the upstream until no more of them fit.
func (r *memoryRig) fill(t *testing.T) {
	t.Helper()
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 8*mb) + `"}]}`
	for r.budget.Used() < r.budget.Size()/4 {
		r.send(t, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		await.Receive(t, r.asked, "the request in the upstream")
	}
}

func TestWhatDoesNotFitIsRefusedBeforeItsBodyIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openMemory(t, 128*mb, server.Settings{})
		r.fill(t)
		for path, shape := range map[string]string{
			"/v1/chat/completions":                   `{"error":{"message":`,
			"/v1/messages":                           `{"type":"error","error":{"type":`,
			"/v1/responses":                          `{"error":{"message":`,
			"/v1beta/models/m:generateContent":       `{"error":{"code":503,`,
			"/v1/messages/count_tokens":              `{"type":"error","error":{"type":`,
			"/v1beta/models/m:streamGenerateContent": `[{"error":{"code":503,`,
		} {
			// No byte of the body is sent: the answer cannot depend on it.
			_, reader := r.send(t, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", path, 12*mb)
			resp, body := answerOn(t, reader)
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("X-Perigee-Class") != "capacity" ||
				resp.Header.Get("Retry-After") == "" || !resp.Close || !strings.HasPrefix(body, shape) ||
				!strings.Contains(body, "limits.memory") {
				t.Errorf("%s: %d %v %s", path, resp.StatusCode, resp.Header, body)
			}
		}
		// Small calls and those without a body are answered all the same.
		_, reader := r.send(t, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if resp, _ := answerOn(t, reader); resp.StatusCode != http.StatusOK {
			t.Errorf("health: %d", resp.StatusCode)
		}
		small := `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
		_, reader = r.send(t, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(small),
			small)
		<-r.asked
		close(r.goOn)
		if resp, body := answerOn(t, reader); resp.StatusCode != http.StatusOK {
			t.Errorf("a small call got %d %s", resp.StatusCode, body)
		}
		synctest.Wait()
		if used := r.budget.Used(); used != 0 {
			t.Errorf("%d bytes are used after the last call", used)
		}
	})
}

func TestBodiesCountUntilTheAnswerBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openMemory(t, 256*mb, server.Settings{})
		body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("x", 8*mb) + `"}]}`
		r.send(t, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		req := <-r.asked
		if used := r.budget.Used(); used != membudget.Base+4*int64(len(body)) {
			t.Errorf("%d bytes are used for a body of %d", used, len(body))
		}
		req.Release()
		if used := r.budget.Used(); used != membudget.Base {
			t.Errorf("%d bytes are used by a stream that has begun", used)
		}
	})
}

func TestChunkedBodiesCountAsTheyArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openMemory(t, 128*mb, server.Settings{})
		r.fill(t)
		piece := strings.Repeat("x", mb)
		chunks := strings.Repeat(fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece), 30)
		_, reader := r.send(t, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%s", chunks)
		resp, _ := answerOn(t, reader)
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("X-Perigee-Class") != "capacity" {
			t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
	})
}

// A Responses stream repeats its text at the end, so all of it is kept.
func TestKeptStreamsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) })
		budget := membudget.New(64*mb, nil)
		said := 0
		upstream := script(func(_ context.Context, yield func(perigee.Event, error) bool) {
			for more := yield(begin, nil); more && said < 200; said++ {
				more = yield(perigee.Event{Kind: perigee.EventText, Text: strings.Repeat("x", mb)}, nil)
			}
		})
		rig := &memoryRig{socketRig: newSocketRig(t, upstream, server.Settings{}, func(o *server.Options) { o.Memory = budget })}
		body := `{"model":"m","stream":true,"input":"hello"}`
		_, reader := rig.send(t, "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		_, text := answerOn(t, reader)
		if !strings.Contains(text, "raise limits.memory") || said < 5 || said > 40 {
			t.Errorf("after %d MB the stream ends with %s", said, text[max(0, len(text)-500):])
		}
		synctest.Wait()
		if budget.Used() != 0 {
			t.Errorf("%d bytes are used", budget.Used())
		}
	})
}

func TestBodyBeyondAQuarterOfTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openMemory(t, 64*mb, server.Settings{})
		_, reader := r.send(t, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", 17*mb)
		resp, body := answerOn(t, reader)
		if resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(body, "raise limits.memory") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		// The largest that is allowed fits while nothing else is large.
		r.send(t, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", 16*mb)
		synctest.Wait()
		if used := r.budget.Used(); used < 16*mb {
			t.Errorf("%d bytes are used", used)
		}
	})
}

// One client that announces large bodies and sends them slowly leaves a part of the budget to other
// clients.
func TestUploadsOfOneSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openMemory(t, 128*mb, server.Settings{Keys: []server.Key{
			{Name: "one", Secret: perigee.NewSecret("secret-one")}, {Name: "two", Secret: perigee.NewSecret("secret-two")}}})
		announce := func(key string) *bufio.Reader {
			_, reader := r.send(t, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n", key, 4*mb)
			synctest.Wait()
			return reader
		}
		for range 3 {
			announce("secret-one") // 16 of 48 MiB each
		}
		resp, body := answerOn(t, announce("secret-one"))
		if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "key one") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		before := r.budget.Used()
		announce("secret-two")
		if used := r.budget.Used(); used-before < 16*mb {
			t.Errorf("another key has reserved %d bytes", used-before)
		}
		time.Sleep(40 * time.Second) // nothing arrives
		synctest.Wait()
		if used := r.budget.Used(); used != 0 {
			t.Errorf("%d bytes are used by bodies that have not arrived in time", used)
		}
		announce("secret-one")
		if used := r.budget.Used(); used < 16*mb {
			t.Error("a source cannot send again after its bodies were given up")
		}
	})
}

// A body of 64 MiB at 17 KB/s would hold its memory for an hour.
func TestLargeBodiesMustArriveFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openMemory(t, 512*mb, server.Settings{})
		conn, err := r.pipes.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		go func() {
			fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", 60*mb)
			for piece := strings.Repeat("x", 17<<10); ; time.Sleep(time.Second) {
				if _, err := io.WriteString(conn, piece); err != nil {
					return
				}
			}
		}()
		start := time.Now()
		resp, _ := answerOn(t, bufio.NewReader(conn))
		if took := time.Since(start); resp.StatusCode != http.StatusRequestTimeout || took > 3*time.Minute {
			t.Errorf("%d after %v", resp.StatusCode, took)
		}
	})
}

func TestTheOwnerIsNotRefused(t *testing.T) {
	budget := membudget.New(mb, nil)
	var full membudget.Lease
	if err := errors.Join(full.Open(budget, true), full.Grow(mb)); err != nil {
		t.Fatal(err)
	}
	server := server.New(server.Options{Upstream: script(func(_ context.Context, yield func(perigee.Event, error) bool) {
		_ = yield(begin, nil) && yield(perigee.Event{Kind: perigee.EventText, Text: "ok"}, nil) && yield(end, nil)
	}), Memory: budget}, server.Settings{MaxBody: mb})
	for _, test := range []struct {
		handler http.Handler
		want    int
	}{{server, http.StatusServiceUnavailable}, {server.Trusted(), http.StatusOK}} {
		w := knock(test.handler, http.MethodPost, "/v1/chat/completions",
			`{"model":"m","messages":[{"role":"user","content":"hello"}]}`)
		if w.Code != test.want {
			t.Errorf("got %d, want %d", w.Code, test.want)
		}
	}
}

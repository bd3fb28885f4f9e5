//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A loadCase is one way to fill the memory of the process.
type loadCase struct {
	name string
	run  func(ctx context.Context, r *rig) error
}

var cases = []loadCase{
	{"200 bodies of 10 MB, Gemini", bodies("gemini")},
	{"200 bodies of 10 MB, Chat", bodies("chat")},
	{"200 bodies of 10 MB, Messages", bodies("messages")},
	{"200 bodies of 10 MB, Responses", bodies("responses")},
	{"80 answers of 250 MiB, parallel", answers(hugeModel, 80, false)},
	{"80 answers of 250 MiB, sequence", answers(hugeModel, 1, false)},
	{"80 answers of empty parts, parallel", answers(piecesModel, 80, false)},
	{"80 answers of 5 MB, parallel", answers(largeModel, 80, false)},
	{"80 answers of 5 MB, streamed", answers(largeModel, 80, true)},
	{"2,000 slow readers", slowReaders},
	{"400 unfinished heads of 0.95 MB", unfinishedHeads(400, 950e3)},
	{"4,000 unfinished heads of 60 KB", unfinishedHeads(4000, 60e3)},
	{"1,000 half bodies", halfBodies},
	{"embeddings bomb of 64 MiB", embeddingsBomb},
	{"300 quiet streams after 1 MB, Gemini", quietStreams("gemini")},
	{"300 quiet streams after 1 MB, Chat", quietStreams("chat")},
	{"300 quiet streams after 1 MB, Responses", quietStreams("responses")},
}

// question returns the path and body of a request of about size bytes: an agent's conversation, in
// texts of 4 KB.
func question(dialect, model string, size int, stream bool) (path string, body []byte) {
	line := `the quick brown fox jumps over the lazy dog\n`
	text := strings.Repeat(line, 92)
	format, head, tail := "", "", fmt.Sprintf(`],"stream":%v}`, stream)
	switch dialect {
	case "gemini":
		path = "/v1beta/models/" + model + ":generateContent"
		if stream {
			path = "/v1beta/models/" + model + ":streamGenerateContent?alt=sse"
		}
		head, format, tail = `{"contents":[`, `{"role":"user","parts":[{"text":"%s"}]}`, `]}`
	case "chat":
		path, head, format = "/v1/chat/completions", `{"model":"`+model+`","messages":[`, `{"role":"user","content":"%s"}`
	case "messages":
		path, head, format = "/v1/messages", `{"model":"`+model+`","max_tokens":100,"messages":[`, `{"role":"user","content":"%s"}`
	case "responses":
		path, head, format = "/v1/responses", `{"model":"`+model+`","input":[`, `{"type":"message","role":"user","content":"%s"}`
	}
	var b bytes.Buffer
	b.Grow(size + 8<<10)
	b.WriteString(head)
	for first := true; first || b.Len() < size; first = false {
		if !first {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, format, text[:min(len(text), max(size-b.Len(), len(line))/len(line)*len(line))])
	}
	b.WriteString(tail)
	return path, b.Bytes()
}

// together runs f n times, at most wide of them at once.
func together(n, wide int, f func(i int)) {
	var group sync.WaitGroup
	places := make(chan struct{}, wide)
	for i := range n {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			f(i)
		})
	}
	group.Wait()
}

// post sends a request, reads the whole answer and counts its status.
func (r *rig) post(ctx context.Context, client *http.Client, path string, body []byte) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.addr+path, bytes.NewReader(body))
	if err != nil {
		r.statuses.add(err.Error())
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		r.statuses.add("no answer: " + lastWords(err))
		return
	}
	defer func() { _ = resp.Body.Close() }()
	var seen lookout
	_, _ = io.Copy(&seen, resp.Body)
	if resp.StatusCode == http.StatusOK && seen.found {
		r.statuses.add("ended")
		return
	}
	r.statuses.add(strconv.Itoa(resp.StatusCode))
}

// A lookout finds the error that ends a stream for which there is no memory.
type lookout struct {
	tail  []byte
	found bool
}

func (l *lookout) Write(p []byte) (int, error) {
	const words = "raise limits.memory"
	text := append(l.tail, p...)
	l.found = l.found || bytes.Contains(text, []byte(words))
	l.tail = append([]byte(nil), text[max(0, len(text)-len(words)):]...)
	return len(p), nil
}

// lastWords is the end of a network error, without addresses.
func lastWords(err error) string {
	text := err.Error()
	return strings.TrimSpace(text[strings.LastIndexByte(text, ':')+1:])
}

func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}, Timeout: 5 * time.Minute}
}

func bodies(dialect string) func(context.Context, *rig) error {
	return func(ctx context.Context, r *rig) error {
		path, body := question(dialect, plainModel, 10e6, false)
		client := newClient()
		defer client.CloseIdleConnections()
		together(r.times(200), 200, func(int) { r.post(ctx, client, path, body) })
		return nil
	}
}

func answers(model string, wide int, stream bool) func(context.Context, *rig) error {
	return func(ctx context.Context, r *rig) error {
		client := newClient()
		defer client.CloseIdleConnections()
		dialects := []string{"gemini", "chat", "messages", "responses"}
		together(r.times(80), wide, func(i int) {
			path, body := question(dialects[i%len(dialects)], model, 1, stream)
			r.post(ctx, client, path, body)
		})
		return nil
	}
}

// holdLimit ends a connection on which nothing happens.
const holdLimit = 2 * time.Minute

// slowReaders reads 128 bytes a second of streams, for 10 seconds after the last has begun. Small
// receive buffers leave the answers with the server.
func slowReaders(ctx context.Context, r *rig) error {
	_, body := question("chat", longModel, 1, true)
	n := r.times(2000)
	var begun sync.WaitGroup
	begun.Add(n)
	together(n, n, func(int) {
		started := sync.OnceFunc(begun.Done)
		defer started()
		conn, err := r.dial(ctx)
		if err != nil {
			r.statuses.add("no connection: " + lastWords(err))
			return
		}
		defer func() { _ = conn.Close() }()
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		_ = conn.SetDeadline(time.Now().Add(holdLimit))
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		buf := make([]byte, 128)
		r.statuses.add(readStatus(conn, buf))
		started()
		begun.Wait()
		for range 10 {
			if _, err := conn.Read(buf); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	})
	return nil
}

func (r *rig) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: 20 * time.Second}
	return d.DialContext(ctx, "tcp", r.addr)
}

// readStatus reads the first bytes of an answer and returns its status.
func readStatus(conn net.Conn, buf []byte) string {
	n, err := io.ReadAtLeast(conn, buf, len("HTTP/1.1 200"))
	if err != nil {
		return "closed"
	}
	return string(buf[:n])[len("HTTP/1.1 "):len("HTTP/1.1 200")]
}

// hold opens n connections, sends each a text, and holds them until none has been answered for a
// few seconds.
func (r *rig) hold(ctx context.Context, n int, text []byte, hold time.Duration) {
	end := time.Now().Add(hold)
	together(n, n, func(int) {
		conn, err := r.dial(ctx)
		if err != nil {
			r.statuses.add("no connection: " + lastWords(err))
			return
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(end)
		go func() { _, _ = conn.Write(text) }() // which fails when the server closes the connection
		r.statuses.add(readStatus(conn, make([]byte, 128)))
	})
}

func unfinishedHeads(n, size int) func(context.Context, *rig) error {
	return func(ctx context.Context, r *rig) error {
		head := "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + strings.Repeat("x", size)
		r.hold(ctx, r.times(n), []byte(head), 8*time.Second)
		return nil
	}
}

func halfBodies(ctx context.Context, r *rig) error {
	_, body := question("chat", plainModel, 1e6, false)
	text := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:len(body)/2])
	r.hold(ctx, r.times(1000), text, 10*time.Second)
	return nil
}

func embeddingsBomb(ctx context.Context, r *rig) error {
	const head, tail = `{"model":"gemini-embedding-001","input":[""`, `]}`
	body := []byte(head + strings.Repeat(`,""`, (64<<20-len(head)-len(tail))/3) + tail)
	client := newClient()
	defer client.CloseIdleConnections()
	r.post(ctx, client, "/v1/embeddings", body)
	return nil
}

func quietStreams(dialect string) func(context.Context, *rig) error {
	return func(ctx context.Context, r *rig) error {
		path, body := question(dialect, quietModel, 1e6, true)
		text := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
		r.hold(ctx, r.times(300), text, 20*time.Second)
		return nil
	}
}

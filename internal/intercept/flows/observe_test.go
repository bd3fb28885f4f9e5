package flows

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"go.uber.org/goleak"

	"perigee/internal/testing/perigeetest/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is an Observer in front of a handler, reached over a real connection.
type rig struct {
	*httptest.Server
	observer *Observer
	path     string // of the HAR file
	lines    *buffer
	closed   sync.Once
}

// A buffer is what Lines write to.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func newRig(t *testing.T, http2 bool, next http.HandlerFunc) *rig {
	t.Helper()
	r := &rig{path: filepath.Join(t.TempDir(), "flows.har"), lines: &buffer{}}
	har, err := NewHAR(HAROptions{Path: r.path, Version: "v1", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r.observer = New(Options{Next: next, Lines: NewLines(LinesOptions{Out: r.lines, JSON: true}), HAR: har})
	r.Server = httptest.NewUnstartedServer(r.observer)
	r.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	r.EnableHTTP2 = http2
	r.StartTLS()
	t.Cleanup(r.close)
	return r
}

func (r *rig) close() {
	r.closed.Do(func() {
		r.Client().CloseIdleConnections()
		r.Server.Close()
		r.observer.Wait(context.Background())
		_ = r.observer.HAR.Close()
		r.observer.Lines.Close(time.Minute)
	})
}

// flows ends the rig and returns what was recorded.
func (r *rig) flows(t *testing.T) (flows []Flow, entries []harEntry) {
	t.Helper()
	r.close()
	for line := range strings.Lines(r.lines.String()) {
		var f Flow
		strict := json.NewDecoder(strings.NewReader(line))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&f); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		flows = append(flows, f)
	}
	return flows, checkHAR(t, r.path)
}

// both runs a test over HTTP/1.1 and over HTTP/2.
func both(t *testing.T, test func(t *testing.T, http2 bool)) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) { test(t, http2) })
	}
}

func do(t *testing.T, r *rig, request *http.Request) (*http.Response, string) {
	t.Helper()
	answer, err := r.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

func newRequest(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return request
}

func TestFlowsAreRecordedAsTheyPassed(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		began := time.Now()
		r := newRig(t, http2, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write(append([]byte(`{"got":`), append(body, '}')...))
		})
		request := newRequest(t, "POST", r.URL+"/v1/models?alt=json&b=%20c", strings.NewReader(`{"a":1}`))
		request.Header.Set("Content-Type", "application/json")
		if answer, body := do(t, r, request); answer.StatusCode != 201 || body != `{"got":{"a":1}}` {
			t.Fatalf("%d %s", answer.StatusCode, body)
		}
		flows, entries := r.flows(t)
		if len(flows) != 1 || len(entries) != 1 {
			t.Fatalf("%d flows and %d entries", len(flows), len(entries))
		}
		f, e, proto := flows[0], entries[0], map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[http2]
		if f.Method != "POST" || f.URL != r.URL+"/v1/models?alt=json&b=%20c" || f.Status != 201 || f.RequestBytes != 7 || f.ResponseBytes != 15 ||
			f.HTTP != proto || f.Error != "" || f.DurationMS < f.FirstByteMS || f.FirstByteMS <= 0 || f.Time.Before(began) || f.Time.After(time.Now()) {
			t.Errorf("%+v", f)
		}
		if e.Request.Post.Text != `{"a":1}` || e.Response.Content.Text != `{"got":{"a":1}}` || e.Response.StatusText != "Created" || e.Request.Version != proto ||
			len(e.Request.Query) != 2 || e.Request.Query[1] != (harPair{"b", " c"}) || e.Response.Content.Size != 15 || e.Response.Content.MimeType != "application/json" {
			t.Errorf("%+v", e)
		}
	})
}

// Nothing waits for a recording: the head, each piece of the answer and each piece of the request
// are there at once, in both directions at the same time. 103 and trailers pass.
func TestNothingIsHeldBack(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		r := newRig(t, http2, func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			if !http2 {
				if err := c.EnableFullDuplex(); err != nil {
					t.Error(err)
				}
			}
			w.Header().Set("Link", "</a>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("Trailer", "Grpc-Status")
			if err := c.Flush(); err != nil {
				t.Error(err)
			}
			if err := c.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
			line := bufio.NewReader(r.Body)
			for {
				text, err := line.ReadString('\n')
				if err != nil {
					break
				}
				fmt.Fprint(w, "data: "+text+"\n")
				w.(http.Flusher).Flush()
			}
			w.Header().Set("Grpc-Status", "0")
			w.Header().Set(http.TrailerPrefix+"X-Late", r.Trailer.Get("X-Of-Request"))
		})
		hints := 0
		send, body := newPipe()
		request := newRequest(t, "POST", r.URL, body)
		request.Trailer = http.Header{"X-Of-Request": {"yes"}}
		request = request.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { hints++; return nil },
		}))
		answer, err := r.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		events := bufio.NewReader(answer.Body)
		for _, word := range []string{"one\n", "two\n"} {
			_, _ = io.WriteString(send, word)
			got, err := events.ReadString('\n')
			if _, err2 := events.ReadString('\n'); err != nil || err2 != nil || got != "data: "+word {
				t.Fatalf("%q, %v, %v", got, err, err2)
			}
		}
		_ = send.Close()
		if _, err := io.ReadAll(events); err != nil {
			t.Fatal(err)
		}
		if hints != 1 || answer.Trailer.Get("Grpc-Status") != "0" || answer.Trailer.Get("X-Late") != "yes" {
			t.Errorf("%d hints, trailers %v", hints, answer.Trailer)
		}
		flows, entries := r.flows(t)
		if len(flows) != 1 || flows[0].RequestBytes != 8 || flows[0].Status != 200 || flows[0].Error != "" {
			t.Errorf("%+v", flows)
		}
		if e := entries[0]; e.Response.Content.Text != "data: one\n\ndata: two\n\n" || e.Request.Post.Text != "one\ntwo\n" || len(e.Response.Trailers) != 2 {
			t.Errorf("%+v", e)
		}
	})
}

// newPipe is io.Pipe; its reader is closed by the client.
func newPipe() (io.WriteCloser, io.Reader) {
	r, w := io.Pipe()
	return w, r
}

func TestAbortedAnswersStayAbortedAndAreErrors(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		gone, served := make(chan struct{}), make(chan struct{})
		r := newRig(t, http2, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/cut":
				_, _ = io.WriteString(w, "half")
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			case "/refused":
				SetError(r.Context(), errors.New("dial https://x.example/?key=c4nary: refused"))
				w.WriteHeader(http.StatusBadGateway)
			case "/gone":
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				close(gone)
				panic(http.ErrAbortHandler)
			case "/whole":
				w.Header().Set("Content-Length", "5")
				_, _ = io.WriteString(w, "whole")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				close(served)
				panic(http.ErrAbortHandler)
			}
		})
		answer, err := r.Client().Do(newRequest(t, "GET", r.URL+"/cut", nil))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(answer.Body); string(body) != "half" || err == nil {
			t.Errorf("%q, %v", body, err)
		}
		_ = answer.Body.Close()
		do(t, r, newRequest(t, "GET", r.URL+"/refused", nil))
		ctx, cancel := context.WithCancel(t.Context())
		answer, err = r.Client().Do(newRequest(t, "GET", r.URL+"/gone", nil).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		await.Receive(t, gone, "the end of the request")
		_ = answer.Body.Close()

		want := map[string]string{"/cut": "200 the answer was cut off", "/gone": "200 the connection of the client was closed",
			"/refused": "502 dial https://x.example/?key=REDACTED refused"}
		if http2 { // an HTTP/1.1 connection stays open after an answer
			leaveWithAll(t, r, r.URL+"/whole")
			await.Receive(t, served, "the end of the request")
			want["/whole"] = "200 "
		}
		flows, entries := r.flows(t)
		for i, f := range flows {
			path := strings.TrimPrefix(f.URL, r.URL)
			if got := fmt.Sprint(f.Status, " ", f.Error); got != want[path] || entries[i].Response.Error != f.Error {
				t.Errorf("%s: %s, %+v", path, got, entries[i].Response)
			}
			delete(want, path)
		}
		if len(want) > 0 {
			t.Errorf("not recorded: %v", want)
		}
	})
}

// leaveWithAll reads an answer of five bytes and leaves, although the server has not ended it.
func leaveWithAll(t *testing.T, r *rig, url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answer, err := r.Client().Do(newRequest(t, "GET", url, nil).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(io.LimitReader(answer.Body, 5)); len(body) != 5 || err != nil {
		t.Errorf("%q, %v", body, err)
	}
}

func TestUpgradesPass(t *testing.T) {
	r := newRig(t, false, func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = buffered.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhi ")
		_ = buffered.Flush()
		_, _ = io.Copy(conn, buffered.Reader)
	})
	conn, err := net.Dial("tcp", r.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	secure := tlsClient(r, conn)
	_, _ = io.WriteString(secure, "GET /ws HTTP/1.1\r\nHost: x.example\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly")
	reader := bufio.NewReader(secure)
	answer, err := http.ReadResponse(reader, nil)
	if err != nil || answer.StatusCode != 101 {
		t.Fatal(answer, err)
	}
	_, _ = io.WriteString(secure, " late")
	got := make([]byte, len("hi early late"))
	if _, err := io.ReadFull(reader, got); err != nil || string(got) != "hi early late" {
		t.Fatalf("%q, %v", got, err)
	}
	_ = secure.Close()
	flows, entries := r.flows(t)
	if f := flows[0]; f.Status != 101 || f.RequestBytes != 10 || f.ResponseBytes != 13 || entries[0].Response.Content.Comment != notRecorded ||
		entries[0].Response.Content.Text+entries[0].Request.Post.Text != "" {
		t.Errorf("%+v %+v", f, entries[0])
	}
}

// A canary is in each place of a request and an answer: headers, cookies, URL, bodies of several
// kinds, also compressed, split over writes, and after the end of what is kept.
func TestNoSecretIsWritten(t *testing.T) {
	const canary = "c4nary-hunter2"
	big := `{"x":"` + strings.Repeat("y", maxBody-40) + `","access_token":"` + canary + strings.Repeat(canary, 8) + `"}`
	bodies := []struct{ kind, encoding, text string }{
		{"application/json", "", `{"a":[{"refresh_token":"` + canary + `","kept":"word"}]}`},
		{"application/json", "gzip", `{"a":[{"id_token":"` + canary + `","kept":"word"}]}`},
		{"application/json", "deflate", `{"client_secret":"` + canary + `","kept":"word"}`},
		{"application/json", "br", `{"password":"` + canary + `","kept":"word"}`},
		{"application/json", "zstd", "\x28\xb5\x2f\xfd" + canary},
		{"application/json", "", big},
		{"application/json", "gzip", big},
		{"application/x-www-form-urlencoded", "", "grant_type=refresh_token&refresh_token=" + canary + "&code=" + canary + "&kept=word"},
		{"text/event-stream", "", "data: {\"access_token\":\"" + canary + "\"}\r\n\r\ndata: kept\r\n\r\n"},
		{"multipart/form-data; boundary=b", "", "--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n" + canary + "\r\n--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nkept\r\n--b--\r\n"},
		{"application/connect+json", "", frame(0, `{"api_key":"`+canary+`"}`) + frame(2, `{}`)},
		{"application/connect+proto", "", frame(1, compress("gzip", "\x0a\x30ya29."+canary+canary)) + frame(0, "\x08\x01")},
		{"application/octet-stream", "", "\x00\x01ya29." + canary + "\x00"},
		{"text/plain; charset=utf-16", "", "\xff\xfe" + wide(`{"password":"`+canary+`"}`)},
		{"", "", `{"password":"` + canary + `"`},
	}
	r := newRig(t, true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "session="+canary+"; Path=/")
		w.Header().Set("X-Api-Key", canary)
		w.Header().Set("Location", "https://x.example/?access_token="+canary)
		for _, name := range []string{"Content-Type", "Content-Encoding", "Connect-Content-Encoding"} {
			w.Header()[name] = r.Header[name]
		}
		c := http.NewResponseController(w)
		piece := make([]byte, 7) // so that secrets lie across pieces
		for {
			n, err := r.Body.Read(piece)
			_, _ = w.Write(piece[:n])
			if r.ContentLength < 1000 {
				_ = c.Flush()
			}
			if err != nil {
				break
			}
		}
		w.Header().Set(http.TrailerPrefix+"X-Auth-Token", canary)
	})
	for _, b := range bodies {
		text := compress(b.encoding, b.text)
		request := newRequest(t, "POST", r.URL+"/x?key="+canary+"&access_token="+canary+"&kept=word", strings.NewReader(text))
		for name, value := range map[string]string{
			"Authorization": "Bearer " + canary, "Proxy-Authorization": "Basic " + canary, "Cookie": "a=" + canary, "X-Goog-Api-Key": canary,
			"X-Api-Key": canary, "Referer": "https://x.example/?key=" + canary, "Accept-Encoding": "identity", "X-Csrf-Token": canary,
			"Content-Type": b.kind, "Content-Encoding": b.encoding, "Connect-Content-Encoding": "gzip",
		} {
			request.Header.Set(name, value)
		}
		if _, got := do(t, r, request); got != text {
			t.Fatalf("%s: the body was changed", b.kind)
		}
	}
	_, entries := r.flows(t)
	if len(entries) != len(bodies) {
		t.Fatalf("%d entries", len(entries))
	}
	for i, e := range entries {
		text := r.lines.String() + fmt.Sprintf("%+v %+v", e, e.Request.Post) + plain(e.Request.Post.Text, e.Request.Post.Encoding) + plain(e.Response.Content.Text, e.Response.Content.Encoding)
		for _, part := range []string{"c4nary", "hunter2", base64.StdEncoding.EncodeToString([]byte(canary))[2:12]} {
			if at := strings.Index(text, part); at >= 0 {
				t.Errorf("%s %s: …%s", bodies[i].kind, bodies[i].encoding, text[max(0, at-100):min(len(text), at+20)])
			}
		}
		if c := e.Response.Content; strings.Contains(bodies[i].text, "kept") && !strings.Contains(c.Text, "kept") || e.Request.Post.Text != c.Text {
			t.Errorf("%s %s: %s", bodies[i].kind, bodies[i].encoding, c.Text)
		} else if bodies[i].encoding != "zstd" && c.Comment != map[bool]string{true: truncated}[len(bodies[i].text) > maxBody] {
			t.Errorf("%s %s: comment %q", bodies[i].kind, bodies[i].encoding, c.Comment)
		} else if bodies[i].encoding == "gzip" && (c.Size != int64(len(bodies[i].text)) || c.Compression != c.Size-e.Response.BodySize) {
			t.Errorf("%d bytes, %d less than %d", e.Response.BodySize, c.Compression, c.Size)
		}
	}
	left, err := os.ReadDir(filepath.Dir(r.path))
	if err != nil || len(left) != 1 {
		t.Errorf("files: %v, %v", left, err)
	}
}

// A credential of the request is replaced in the answer under any name, and as URLs encode it.
func TestAnswersThatRepeatACredential(t *testing.T) {
	r := newRig(t, false, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Seen", r.Header.Get("Authorization"))
		fmt.Fprintf(w, `{"seen":"%s","also":"%s","and":"%s","short":"ab"}`, r.Header.Get("Authorization")[7:], r.URL.RawQuery, r.Header.Get("Cookie"))
	})
	request := newRequest(t, "GET", r.URL+"/path/c4nary%2Fone?key=c4nary%2Fone&sig=ab", nil)
	request.Header.Set("Authorization", "Bearer c4nary/one")
	request.Header.Set("Cookie", "a=c4nary-two; b=ab")
	do(t, r, request)
	_, entries := r.flows(t)
	if got, want := entries[0].Response.Content.Text, `{"seen":"REDACTED","also":"key=REDACTED&sig=REDACTED","and":"a=REDACTED; b=ab","short":"ab"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if text := fmt.Sprintf("%+v", entries); strings.Contains(text, "c4nary") {
		t.Error(text)
	}
}

func frame(flags byte, text string) string {
	return string(append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(text))), text...))
}

func wide(text string) string {
	var b strings.Builder
	for _, c := range text {
		b.WriteString(string([]byte{byte(c), 0}))
	}
	return b.String()
}

func plain(text, encoding string) string {
	if raw, err := base64.StdEncoding.DecodeString(text); encoding == "base64" && err == nil {
		return string(raw)
	}
	return ""
}

func compress(encoding, text string) string {
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = deflate(&b)
	case "br":
		w = brotli.NewWriter(&b)
	default:
		return text
	}
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// discard returns Lines that are not read.
func discard(t *testing.T) *Lines {
	l := NewLines(LinesOptions{Out: io.Discard, JSON: true})
	t.Cleanup(func() { l.Close(time.Minute) })
	return l
}

// The file is valid while flows pass, and what is read again later has more entries.
func TestTheArchiveIsValidAllTheTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.har")
	har, err := newHAR(HAROptions{Path: path, Version: "v1", Logger: slog.New(slog.DiscardHandler)}, 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if entries := checkHAR(t, path); len(entries) != 0 {
		t.Errorf("%d entries", len(entries))
	}
	o := New(Options{HAR: har, Lines: discard(t), Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })})
	const count = 300
	last := 0
	for i := range count {
		o.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", fmt.Sprintf("https://x.example/%d", i), strings.NewReader("text")))
		if i%20 == 0 {
			now := len(checkHAR(t, path))
			if now < last || now > i+1 {
				t.Fatalf("%d entries after %d, and %d flows", now, last, i+1)
			}
			last = now
		}
	}
	await.Until(t, "the entries are written while flows are waited for", func() bool { return len(checkHAR(t, path)) == count })
	if err := har.Close(); err != nil {
		t.Fatal(err)
	}
	o.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "https://x.example/late", nil)) // not a panic
	for i, e := range checkHAR(t, path) {
		if e.Request.URL != fmt.Sprintf("https://x.example/%d", i) {
			t.Fatalf("entry %d is %s", i, e.Request.URL)
		}
	}
}

func TestArchivesThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "none", "a.har")} {
		if _, err := NewHAR(HAROptions{Path: path, Version: "v1"}); err == nil {
			t.Errorf("%s is written", path)
		}
	}
	var said buffer
	path := filepath.Join(dir, "sub", "a.har")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	har, err := newHAR(HAROptions{Path: path, Version: "v1", Logger: slog.New(slog.NewTextHandler(&said, nil))}, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	o := New(Options{HAR: har, Lines: discard(t), Next: http.NotFoundHandler()})
	o.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "https://x.example/", nil))
	if err := har.Close(); err == nil {
		t.Error("no error")
	}
}

// The memory of bodies is limited, also when nothing is written.
func TestMemoryIsLimited(t *testing.T) {
	var m memory
	big := make([]byte, 300<<10)
	kept := 0
	for range 100 {
		var r recording
		for range 5 {
			r.add(big, &m)
		}
		if r.size != 5*int64(len(big)) || len(r.data) > maxBody || !r.cut {
			t.Fatalf("%d bytes, %d kept", r.size, len(r.data))
		}
		kept += len(r.data)
	}
	if int64(kept) != m.used.Load() || kept > maxMemory || kept < maxMemory-maxBody {
		t.Errorf("%d kept, %d counted", kept, m.used.Load())
	}
}

package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/testing/perigeetest"

	"perigee"
)

// A site is a web server that may be reached, at the names that a resolver of the test's own gives
// it.
type site struct {
	*httptest.Server
	port string

	mu   sync.Mutex
	seen []*http.Request
}

func newSite(t *testing.T, handle http.HandlerFunc) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r)
		s.mu.Unlock()
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	_, s.port, _ = net.SplitHostPort(s.Listener.Addr().String())
	return s
}

func (s *site) at(host, path string) string { return "http://" + host + ":" + s.port + path }

func (s *site) permit(a netip.AddrPort) bool {
	return a == netip.MustParseAddrPort(s.Listener.Addr().String())
}

// fetcher reaches the site, and nothing else.
func (s *site) fetcher(change func(*Options)) *Fetcher {
	opts := Options{Allow: true, MaxBytes: 1 << 20, Timeout: 10 * time.Second, UserAgent: "perigee/test", Permit: s.permit,
		Resolver: names(map[string]string{"pictures.example": "127.0.0.1", "inside.example": "10.0.0.1", "metadata.example": "169.254.169.254"})}
	if change != nil {
		change(&opts)
	}
	return New(opts)
}

// names is a resolver that knows only these, in one address each.
func names(known map[string]string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer func() { _ = theirs.Close() }()
			for {
				var size [2]byte
				if _, err := io.ReadFull(theirs, size[:]); err != nil {
					return
				}
				query := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(theirs, query); err != nil {
					return
				}
				answer := resolve(known, query)
				_, _ = theirs.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
			}
		}()
		return ours, nil
	}}
}

// resolve answers a DNS query, RFC 1035 section 4.
func resolve(known map[string]string, query []byte) []byte {
	var labels []string
	at := 12
	for query[at] != 0 {
		n := int(query[at])
		labels = append(labels, string(query[at+1:at+1+n]))
		at += 1 + n
	}
	question := query[12 : at+5]
	isA := binary.BigEndian.Uint16(query[at+1:]) == 1
	address, ok := known[strings.Join(labels, ".")]
	answer := append(bytes.Clone(query[:2]), 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
	if !ok {
		answer[3] = 0x83 // no such name
	}
	answer = append(answer, question...)
	if ok && isA {
		answer[7] = 1
		four := netip.MustParseAddr(address).As4()
		answer = append(answer, 0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4)
		answer = append(answer, four[:]...)
	}
	return answer
}

func file(uri string) perigee.Part {
	return perigee.Part{Kind: perigee.PartFile, File: &perigee.File{MIME: "image/jpeg", URI: uri}}
}

func asking(parts ...perigee.Part) *perigee.Prompt {
	return &perigee.Prompt{Contents: []perigee.Content{
		{Role: perigee.RoleUser, Parts: []perigee.Part{{Text: perigee.Plain("Look.")}}},
		{Role: perigee.RoleUser, Parts: parts},
	}}
}

func serveContent(mime, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mime)
		_, _ = io.WriteString(w, body)
	}
}

func TestFilesOnTheWebBecomeData(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cat.png":
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
			serveContent("image/png", png)(w, r)
		case "/mislabelled.jpg":
			serveContent("image/jpeg", png)(w, r)
		case "/moved":
			http.Redirect(w, r, "/cat.png", http.StatusFound)
		}
	})
	cat, moved, wrong := s.at("pictures.example", "/cat.png?token=abc"), s.at("pictures.example", "/moved"), s.at("pictures.example", "/mislabelled.jpg")
	first := file(cat)
	first.Signature, first.File.Extra = "seal", perigee.Fields{{Name: "displayName", Value: []byte(`"cat"`)}}
	p := asking(first, perigee.Part{Text: perigee.Plain("and")}, file(moved), file(cat), file("gs://bucket/a.png"), file("https://youtu.be/abc"),
		file("https://www.youtube.com/watch?v=abc"), file("https://generativelanguage.googleapis.com/v1beta/files/abc"), file(wrong),
		perigee.Part{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{ID: "1", Media: []perigee.Part{file(cat)}}})
	got, notes, err := s.fetcher(nil).Inline(t.Context(), p, free)
	if err != nil {
		t.Fatal(err)
	}
	want := base64.StdEncoding.EncodeToString([]byte(png))
	parts := got.Contents[1].Parts
	if r := parts[9].Response; r.ID != "1" || r.Media[0].Kind != perigee.PartBlob || r.Media[0].Blob.Data != want || p.Contents[1].Parts[9].Response.Media[0].Blob != nil {
		t.Errorf("the result is %+v", r)
	}
	for _, i := range []int{0, 2, 3, 8} {
		if part := parts[i]; part.Kind != perigee.PartBlob || part.File != nil || part.Blob.MIME != "image/png" || part.Blob.Data != want {
			t.Errorf("part %d is %+v", i, part)
		}
	}
	if parts[0].Signature != "seal" || string(parts[0].Blob.Extra.Get("displayName")) != `"cat"` {
		t.Errorf("lost on the way: %+v", parts[0])
	}
	for _, i := range []int{4, 5, 6, 7} {
		if parts[i].Kind != perigee.PartFile || parts[i].File != p.Contents[1].Parts[i].File {
			t.Errorf("part %d is %+v", i, parts[i])
		}
	}
	if len(notes) != 1 || notes[0].String() != "repaired type of a file from pictures.example: image/jpeg is image/png" {
		t.Errorf("notes %v", notes)
	}
	if p.Contents[1].Parts[0].Kind != perigee.PartFile || p.Contents[1].Parts[0].Blob != nil {
		t.Error("the prompt itself was changed")
	}
	if &got.Contents[0].Parts[0] != &p.Contents[0].Parts[0] {
		t.Error("a turn without files was copied")
	}
	// The cat, the redirect and where it leads, and the one with the wrong name.
	if len(s.seen) != 4 {
		t.Errorf("the server was asked %d times", len(s.seen))
	}
	for _, r := range s.seen {
		for _, name := range []string{"Cookie", "Authorization", "Referer"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%s: sent %s: %s", r.URL, name, r.Header.Get(name))
			}
		}
		if r.UserAgent() != "perigee/test" {
			t.Errorf("User-Agent %q", r.UserAgent())
		}
	}
}

func TestNothingIsFetchedUnlessAllowed(t *testing.T) {
	s := newSite(t, serveContent("image/png", png))
	p := asking(file(s.at("pictures.example", "/cat.png")))
	got, notes, err := s.fetcher(func(o *Options) { o.Allow = false }).Inline(t.Context(), p, free)
	if got != p || notes != nil || err != nil || len(s.seen) != 0 {
		t.Errorf("got %v, %v, %v; %d requests", got, notes, err, len(s.seen))
	}
}

// Requests without files cost a look at each part and nothing else.
func TestPromptWithoutFilesIsLeftAlone(t *testing.T) {
	f, p := New(Options{Allow: true}), asking(perigee.Part{Text: perigee.Plain("hi")})
	if n := testing.AllocsPerRun(100, func() {
		if got, _, err := f.Inline(t.Context(), p, free); got != p || err != nil {
			t.Fatal(got, err)
		}
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// net/http reads the environment once in a process, so a test that sets it would prove nothing.
func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	if f := New(Options{Allow: true}); f.client.Transport.(*http.Transport).Proxy != nil || f.client.Jar != nil {
		t.Error("there is a proxy or a cookie jar")
	}
}

func TestRefusals(t *testing.T) {
	secret := newSite(t, serveContent("image/png", png)) // reachable, but not permitted
	zipped := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "image/heic")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.Copy(z, io.LimitReader(zeros{}, int64(n)))
			_ = z.Close()
		}
	}
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	tests := []struct {
		name   string
		url    string // empty means the site's
		handle http.HandlerFunc
		want   string
	}{
		{name: "private address", url: "http://10.1.2.3/cat.png", want: "the file at 10.1.2.3 cannot be fetched: it leads to no public address; send the data itself"},
		{name: "loopback", url: secret.URL + "/cat.png", want: "no public address"},
		{name: "loopback by name", url: secret.at("localhost", "/cat.png"), want: "the file at localhost cannot be fetched: it leads to no public address"},
		{name: "loopback, other notations", url: secret.at("[::ffff:127.0.0.1]", "/cat.png"), want: "no public address"},
		{name: "metadata service", url: "http://169.254.169.254/latest/meta-data/", want: "no public address"},
		{name: "name of a private address", url: "http://inside.example/cat.png", want: "the file at inside.example cannot be fetched: it leads to no public address"},
		{name: "name of the metadata service", url: "https://metadata.example/", want: "no public address"},
		{name: "port", url: "http://8.8.8.8:22/", want: "port other than 80 and 443"},
		{name: "user name", url: "http://me:hunter2@pictures.example/cat.png", want: "the file at pictures.example cannot be fetched: it has a user name in it"},
		{name: "no host", url: "http:///cat.png", want: "it has no host"},
		{name: "not a URL", url: "http://pictures.example/%zz?token=abc", want: "a URL in the request cannot be read; write it as https://host/path"},
		{name: "unknown name", url: "http://nowhere.example/cat.png", want: "the file at nowhere.example cannot be fetched: it leads to no public address; send the data itself"},
		{name: "redirect to loopback", handle: redirect(secret.URL), want: "it leads to no public address"},
		{name: "redirect to a file", handle: redirect("file:///etc/passwd"), want: "something other than http and https"},
		{name: "redirect with a user name", handle: redirect("http://me:hunter2@pictures.example/"), want: "user name"},
		{name: "redirects without end", handle: redirect("/again"), want: "it redirects too often"},
		{name: "not found", handle: http.NotFound, want: "its server answered 404 Not Found"},
		{name: "wrong type", handle: serveContent("text/html", html), want: "it is text/html"},
		{name: "announced too large", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "image/png")
			w.Header().Set("Content-Length", "99999999")
		}, want: "larger than 1048576 bytes; send fewer or smaller ones, or raise media.max"},
		{name: "too large", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "image/png")
			_, _ = io.WriteString(w, png)
			_, _ = io.Copy(w, io.LimitReader(zeros{}, 2<<20))
		}, want: "larger than 1048576 bytes"},
		{name: "too large when unpacked", handle: zipped(8 << 20), want: "larger than 1048576 bytes"},
		{name: "other encodings", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(w, png)
		}, want: "an encoding that was not requested"},
		{name: "broken off", handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "image/png")
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, png)
		}, want: "it could not be reached"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, test.handle)
			address := test.url
			if address == "" {
				address = s.at("pictures.example", "/cat.png?token=abc")
			}
			_, _, err := s.fetcher(nil).Inline(t.Context(), asking(file(address)), free)
			e, ok := errors.AsType[*perigee.Error](err)
			if !ok || e.Class != perigee.ClassInvalid || !strings.Contains(e.Error(), test.want) {
				t.Fatalf("got %v", err)
			}
			if strings.Contains(e.Error(), "token") || strings.Contains(e.Error(), "hunter2") || strings.Contains(e.Error(), "127.0.0.1:") {
				t.Errorf("tells too much: %v", e)
			}
			if len(secret.seen) > 0 {
				t.Error("reached what it may not")
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestSmallGzipIsUnpacked(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, "hello")
		_ = z.Close()
	})
	got, _, err := s.fetcher(nil).Inline(t.Context(), asking(file(s.at("pictures.example", "/"))), free)
	if err != nil || got.Contents[1].Parts[0].Blob.Data != "aGVsbG8=" {
		t.Errorf("got %v, %v", got, err)
	}
}

// The limit is for all together: three of half the size are too much.
func TestLimitIsForAllTogether(t *testing.T) {
	s := newSite(t, serveContent("image/png", png+strings.Repeat("x", 400<<10)))
	f := s.fetcher(nil)
	var parts []perigee.Part
	for i := range 3 {
		_, _, err := f.Inline(t.Context(), asking(parts...), free)
		if err != nil {
			t.Fatalf("%d files: %v", i, err)
		}
		parts = append(parts, file(s.at("pictures.example", fmt.Sprint("/", i))))
	}
	if _, _, err := f.Inline(t.Context(), asking(parts...), free); err == nil || !strings.Contains(err.Error(), "media.max") {
		t.Errorf("got %v", err)
	}
}

func TestSlowServersAreGivenUp(t *testing.T) {
	for _, begun := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			pipes, gone := perigeetest.NewPipes(), make(chan struct{})
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if begun {
					w.Header().Set("Content-Type", "image/png")
					_, _ = io.WriteString(w, png)
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
				close(gone)
			})}
			go func() { _ = server.Serve(pipes) }()
			defer server.Close()
			f := New(Options{Allow: true})
			f.client.Transport.(*http.Transport).DialContext = pipes.Dial
			began := time.Now()
			_, _, err := f.Inline(t.Context(), asking(file("http://pictures.example/")), free)
			want := fmt.Sprintf("it did not arrive within %v; send the data itself, or raise media.timeout", defaultTimeout)
			if err == nil || !strings.Contains(err.Error(), want) || time.Since(began) != defaultTimeout {
				t.Errorf("got %v after %v", err, time.Since(began))
			}
			<-gone
		})
	}
}

func TestClientThatLeavesEndsFetching(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := newSite(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	_, _, err := s.fetcher(nil).Inline(ctx, asking(file(s.at("pictures.example", "/"))), free)
	if !errors.Is(err, context.Canceled) || perigee.AsError(err).Class != perigee.ClassCanceled {
		t.Errorf("got %v", err)
	}
}

func TestFewAtATime(t *testing.T) {
	var now, most atomic.Int64
	four := make(chan struct{})
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == maxAtOnce {
			select {
			case <-four:
			default:
				close(four)
			}
		}
		<-four // wait until four are here
		serveContent("image/png", png)(w, r)
	})
	var parts []perigee.Part
	for i := range maxURLs {
		parts = append(parts, file(s.at("pictures.example", fmt.Sprint("/", i))))
	}
	f := s.fetcher(nil)
	if _, _, err := f.Inline(t.Context(), asking(parts...), free); err != nil {
		t.Fatal(err)
	}
	if most.Load() != maxAtOnce {
		t.Errorf("%d at once", most.Load())
	}
	before := len(s.seen)
	parts = append(parts, file(s.at("pictures.example", "/one/more")))
	_, _, err := f.Inline(t.Context(), asking(parts...), free)
	if err == nil || !strings.Contains(err.Error(), "points at more than 16 files on the web") || len(s.seen) != before {
		t.Errorf("got %v", err)
	}
}

// free reserves nothing.
func free(int64) error { return nil }

// However many addresses there are, few are looked at before the request is refused.
func TestAddressesAreNotAllCollected(t *testing.T) {
	var results, parts []perigee.Part
	for i := range 10 * maxURLs {
		parts = append(parts, file(fmt.Sprint("https://pictures.example/", i)))
		results = append(results, perigee.Part{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{Media: parts[i:]}})
	}
	for name, p := range map[string]*perigee.Prompt{
		"one message": asking(parts...), "results": asking(results...),
		"many messages": {Contents: slices.Repeat(asking(parts...).Contents, 3)},
	} {
		if n := len(remoteFiles(p)); n != maxURLs+1 {
			t.Errorf("%s: %d addresses", name, n)
		}
	}
}

func TestRedirectsAreCounted(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if left := len(r.URL.Path) - 1; left > 0 {
			http.Redirect(w, r, r.URL.Path[:left], http.StatusFound)
			return
		}
		serveContent("image/png", png)(w, r)
	})
	for path, ok := range map[string]bool{"/": true, "/aaa": true, "/aaaa": false} {
		if _, _, err := s.fetcher(nil).Inline(t.Context(), asking(file(s.at("pictures.example", path))), free); (err == nil) != ok {
			t.Errorf("%d redirects: %v", len(path)-1, err)
		}
	}
}

// A client cannot tell an internal name from one that does not exist; the log can.
func TestInternalNamesAreNotToldFromUnknownOnes(t *testing.T) {
	s := newSite(t, http.NotFound)
	var log strings.Builder
	told := map[string]string{}
	for _, host := range []string{"inside.example", "nowhere.example"} {
		f := s.fetcher(func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		_, _, err := f.Inline(t.Context(), asking(file("http://"+host+"/cat.png")), free)
		if err == nil {
			t.Fatalf("%s was fetched", host)
		}
		told[host] = strings.ReplaceAll(err.Error(), host, "HOST")
	}
	if told["inside.example"] != told["nowhere.example"] {
		t.Errorf("clients are told %q", told)
	}
	for _, want := range []string{`host=inside.example reason="it leads to no public address: `, `host=nowhere.example reason="name lookup: `} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s: %s", want, log.String())
		}
	}
}

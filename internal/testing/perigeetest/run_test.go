package perigeetest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"perigee"
)

// A postman is the simplest gateway: it sends each request on to the URL in its configuration, and
// the answer back as it comes. Its config may name bad habits.
type postman struct {
	server *httptest.Server
	setup  Setup
	calls  []perigee.Call
}

func (p *postman) URL() string { return p.server.URL }

func (p *postman) Stop(context.Context) ([]perigee.Call, error) {
	p.server.Close()
	return p.calls, nil
}

func (p *postman) habit(name string) bool { return strings.Contains(p.setup.Config, name) }

func (p *postman) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := p.setup.IDs.New()
	w.Header().Set("X-Perigee-Call", id)
	p.calls = append(p.calls, perigee.Call{ID: id, Outcome: perigee.OutcomeDone, Client: perigee.Client{Name: p.setup.Clock.Now().Format("15:04")}})
	url := strings.Fields(p.setup.Config)[0]
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	for {
		req, _ := http.NewRequestWithContext(r.Context(), r.Method, url+r.URL.Path, r.Body)
		req.Header.Set("User-Agent", "postman")
		resp, err := transport.RoundTrip(req)
		if err != nil {
			http.Error(w, "unreachable", http.StatusBadGateway)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		if p.habit("twice") {
			p.setup.Config = url
			continue
		}
		p.deliver(w, resp)
		return
	}
}

func (p *postman) deliver(w http.ResponseWriter, resp *http.Response) {
	w.WriteHeader(resp.StatusCode)
	control := http.NewResponseController(w)
	_ = control.Flush()
	if p.habit("hoards") {
		body, _ := io.ReadAll(resp.Body)
		_, _ = w.Write(body)
		return
	}
	buf := make([]byte, 1000)
	for {
		n, err := resp.Body.Read(buf)
		_, _ = w.Write(buf[:n])
		_ = control.Flush()
		switch {
		case err == io.EOF:
			return
		case err != nil:
			panic(http.ErrAbortHandler)
		}
	}
}

func play(t *testing.T, text string) (string, error) {
	t.Helper()
	runner := Runner{Start: func(_ context.Context, setup Setup) (Gateway, error) {
		p := &postman{setup: setup}
		p.server = httptest.NewServer(p)
		return p, nil
	}}
	archive, err := runner.play(t.Context(), txtar.Parse([]byte(text)), t.TempDir())
	if err != nil {
		return "", err
	}
	return string(txtar.Format(archive)), nil
}

const conversation = `What is pinned.
-- config --
{{provider}}
-- request --
POST /one

to {{provider.addr}}
-- upstream.request --
POST /one
User-Agent: postman

to {{provider.addr}}
-- upstream.response --
200 OK

a␍
!pause
b⟪pause⟫⟪ff⟫⟪reset⟫
-- response --
200 OK
X-Perigee-Call: call-0001

a␍
!pause
b⟪pause⟫⟪ff⟫⟪reset⟫
-- call --
id: call-0001
client: 09:26
outcome: done
-- request.2 --
!advance 1m
HEAD /two
-- upstream.request.2 --
HEAD /two
User-Agent: postman
-- upstream.response.2 --
404 Not Found
-- response.2 --
404 Not Found
X-Perigee-Call: call-0002
-- call.2 --
id: call-0002
client: 09:27
outcome: done
`

func TestPlayReturnsWhatHappened(t *testing.T) {
	got, err := play(t, conversation)
	if err != nil || got != conversation {
		t.Errorf("got\n%s(%v)", got, err)
	}
	// What the file expects does not change what happens, nor does it matter whether it is there.
	for _, edit := range []*strings.Replacer{
		strings.NewReplacer("X-Perigee-Call: call-0001", "X-Perigee-Call: nonsense"),
		strings.NewReplacer("outcome: done", "outcome: failed"),
		strings.NewReplacer("-- call.2 --\nid: call-0002\nclient: 09:27\noutcome: done\n", ""),
		strings.NewReplacer("-- upstream.request.2 --\nHEAD /two\nUser-Agent: postman\n", ""),
	} {
		edited := edit.Replace(conversation)
		if edited == conversation {
			t.Fatal("nothing was edited")
		}
		if got, err := play(t, edited); err != nil || got != conversation {
			t.Errorf("after an edit got\n%s(%v)", got, err)
		}
	}
}

// A gateway that holds events back is found out: what was sent before the pause is not there at the
// pause.
func TestPauseFindsWhatIsHeldBack(t *testing.T) {
	got, err := play(t, "-- config --\n{{provider}} hoards\n-- request --\nPOST /one\n-- upstream.response --\n200 OK\n\na\n!pause\nb\n")
	if err != nil || !strings.Contains(got, "\n\n!pause\na\nb\n-- call --") {
		t.Errorf("got\n%s(%v)", got, err)
	}
}

func TestPlayRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"a request without an answer", "-- config --\n{{provider}}\n-- request --\nGET /one\n", "more than the transcript answers"},
		{"one request too many", "-- config --\n{{provider}} twice\n-- request --\nGET /one\n-- upstream.response --\n200 OK\n", "more than the transcript answers"},
		{"an answer that nobody wanted", "-- config --\nhttp://127.0.0.1:1\n-- request --\nGET /one\n-- upstream.response --\n200 OK\n", "never asked for upstream.response"},
		{"an unknown part", "-- reqeust --\nGET /one\n", `unknown part "reqeust"`},
		{"no request", "-- config --\nx\n", "no request"},
		{"an answer without a status", "-- request --\nGET /one\n-- upstream.response --\nOK\n", "is not a status line"},
		{"a header without a colon", "-- config --\n{{provider}}\n-- request --\nGET /one\nHost\n", "is not a header"},
		{"a direction in the wrong place", "-- config --\n{{provider}}\n-- request --\nGET /one\n\n!hang\n", "makes no sense in a request"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got, err := play(t, test.text); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %s (%v), want an error with %q", got, err, test.want)
			}
		})
	}
}

// Requests that come at the same time get the answer beside their request line, whichever comes
// first.
func TestAnswersFindTheirRequests(t *testing.T) {
	text := "-- config --\n{{provider}}\n-- request --\nGET /b\n" +
		"-- upstream.request --\nGET /a\n-- upstream.response --\n200 OK\n\nfor a\n" +
		"-- upstream.request.2 --\nGET /b\n-- upstream.response.2 --\n200 OK\n\nfor b\n" +
		"-- request.2 --\nGET /a\n"
	got, err := play(t, text)
	if err != nil || !strings.Contains(got, "call-0001\n\nfor b\n") || !strings.Contains(got, "call-0002\n\nfor a\n") {
		t.Errorf("got\n%s(%v)", got, err)
	}
}

package live

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/lib/redact"
	"perigee/internal/server/mount"
	"perigee/internal/testing/perigeetest/await"
)

// A tailRig is a hub whose calls are followed over HTTP.
type tailRig struct {
	*testing.T
	hub  *Hub
	url  string
	acts []perigee.AuditEntry
}

func newTailRig(t *testing.T) *tailRig {
	r := &tailRig{T: t, hub: New(time.Now)}
	secrets := redact.New(perigee.NewSecret("the-admin-token"))
	point := Point(PointOptions{Hub: r.hub, Redactor: func() *redact.Redactor { return secrets },
		Audit: func(_ context.Context, e perigee.AuditEntry) { r.acts = append(r.acts, e) }})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		call := &mount.Call{ID: "tail", Fail: func(err error) { http.Error(w, err.Error(), perigee.ClassStatus[perigee.AsError(err).Class]) }}
		point.Handler.ServeHTTP(w, req.WithContext(mount.WithCall(req.Context(), call)))
	}))
	t.Cleanup(server.Close)
	r.url = server.URL + Path
	return r
}

// follow returns a function that returns the next line as text.
func (r *tailRig) follow(query string) (next func() string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	r.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+query, nil)
	if err != nil {
		r.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	next = func() string {
		r.Helper()
		var l Line
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &l) != nil {
			r.Fatalf("no line: %v %s", lines.Err(), lines.Text())
		}
		text := fmt.Sprint(l.Event, " ", l.ID, l.Text)
		if l.Call != nil {
			text += fmt.Sprint(" ", l.Call.Model, " ", l.Call.Outcome)
		}
		return text
	}
	if first := next(); first != "following " {
		r.Fatal(first)
	}
	return next
}

// begin begins a call.
func (r *tailRig) begin(id, model string) (perigee.Watcher, *perigee.Call) {
	call := &perigee.Call{ID: id, Time: time.Now(), ModelAsked: model, Outcome: perigee.OutcomeOpen, Client: perigee.Client{Name: "Claude-CLI", Key: "laptop"}}
	return r.hub.Watch(call, nil), call
}

func end(w perigee.Watcher, c *perigee.Call, class perigee.Class) {
	ended := *c
	ended.Outcome, ended.Class, ended.Account = perigee.OutcomeDone, class, "ada@example.com"
	if class != "" {
		ended.Outcome = perigee.OutcomeFailed
	}
	w.Ended(&ended)
}

func TestCallsAreFollowed(t *testing.T) {
	r := newTailRig(t)
	plain, texts := r.follow(""), r.follow("?text=true&client=claude*")
	failed := r.follow("?errors=true&text=true&account=ADA@*")
	w, call := r.begin("c1", "m")
	call.Model = "m"
	w.Event(&perigee.Event{Kind: perigee.EventStart, Model: "m-the-admin-token"})
	w.Event(&perigee.Event{Kind: perigee.EventThinking, Text: "hm, "})
	w.Event(&perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{Name: "read"}})
	w.Event(&perigee.Event{Kind: perigee.EventText, Text: "it is the-admin"})
	if got := []string{texts(), texts(), texts(), texts()}; !slices.Equal(got, []string{"began c1 m open", "started c1 m-[redacted] open", "thinking c1hm, ", "tool c1read"}) {
		t.Errorf("%q", got)
	}
	w.Event(&perigee.Event{Kind: perigee.EventText, Text: "-token!"})
	end(w, call, "")
	said := ""
	for line := ""; line != "ended c1 m done"; {
		line = texts()
		var rest string
		if _, err := fmt.Sscanf(line, "text c1%s", &rest); err == nil {
			said += line[len("text c1"):]
		}
	}
	if said != "it is [redacted]!" {
		t.Errorf("said %q", said)
	}
	other, call2 := r.begin("c2", "n")
	end(other, call2, perigee.ClassInvalid)
	for _, want := range []string{"began c1 m open", "started c1 m-[redacted] open", "ended c1 m done", "began c2 n open", "ended c2 n failed"} {
		if got := plain(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := failed(); got != "ended c2 n failed" {
		t.Errorf("got %q", got)
	}
	if len(r.acts) != 3 || r.acts[2].Object != "live errors=true account=ADA@*" {
		t.Errorf("%+v", r.acts)
	}
}

// A word is complete when something of another kind follows it: thinking is shown before the text
// that it leads to.
func TestPiecesStayInOrder(t *testing.T) {
	r := newTailRig(t)
	next := r.follow("?text=true")
	w, call := r.begin("c1", "m")
	for _, e := range []perigee.Event{
		{Kind: perigee.EventThinking, Text: "a last th"}, {Kind: perigee.EventThinking, Text: "ought"}, {Kind: perigee.EventText, Text: "then te"},
		{Kind: perigee.EventText, Text: "xt"}, {Kind: perigee.EventCall, Call: &perigee.FunctionCall{Name: "read"}}, {Kind: perigee.EventText, Text: "end"},
	} {
		w.Event(&e)
	}
	end(w, call, "")
	var pieces []string
	for line := next(); line != "ended c1 m done"; line = next() {
		kind, text, _ := strings.Cut(line, " c1")
		if last := len(pieces) - 1; last >= 0 && strings.HasPrefix(pieces[last], kind+":") {
			pieces[last] += text
		} else {
			pieces = append(pieces, kind+":"+text)
		}
	}
	if want := []string{"began: m open", "thinking:a last thought", "text:then text", "tool:read", "text:end"}; !slices.Equal(pieces, want) {
		t.Errorf("got %q, want %q", pieces, want)
	}
}

// Beyond some clients one more is refused, until one of them has left.
func TestFollowersAreLimited(t *testing.T) {
	r := newTailRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	follow := func(ctx context.Context) (*http.Response, string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		line, err := bufio.NewReader(resp.Body).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return resp, line
	}
	for i := range maxFollowers {
		which := t.Context()
		if i == 0 {
			which = ctx
		}
		if resp, line := follow(which); resp.StatusCode != http.StatusOK {
			t.Fatalf("the %dth got %s %s", i+1, resp.Status, line)
		}
	}
	if resp, line := follow(t.Context()); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(line, "64 clients") {
		t.Errorf("got %s %s", resp.Status, line)
	}
	cancel()
	await.Until(t, "a place", func() bool { resp, _ := follow(t.Context()); return resp.StatusCode == http.StatusOK })
}

func TestFiltersThatAreNotUnderstood(t *testing.T) {
	r := newTailRig(t)
	for _, query := range []string{"?errors=maybe", "?text=2", "?modle=x"} {
		resp, err := http.Get(r.url + query)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", query, resp.Status)
		}
	}
	if len(r.acts) != 3 || r.acts[0].Result != string(perigee.ClassInvalid) {
		t.Errorf("%+v", r.acts)
	}
}

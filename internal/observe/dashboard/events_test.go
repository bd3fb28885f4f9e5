package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

// An eventReader reads the events of a browser.
type eventReader struct {
	t       *testing.T
	scanner *bufio.Scanner
	end     context.CancelFunc
}

// listen opens the event stream.
func (b *browser) listen(t *testing.T) *eventReader {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", b.rig.server.URL+"/dashboard/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.AddCookie(b.cookie)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	checkHeaders(t, "/dashboard/events", resp.Header)
	return &eventReader{t, bufio.NewScanner(resp.Body), cancel}
}

// next returns the next event of one of the names.
func (e *eventReader) next(names ...string) (name string, m message) {
	e.t.Helper()
	for e.scanner.Scan() {
		if text, ok := strings.CutPrefix(e.scanner.Text(), "event: "); ok {
			name = text
		}
		data, ok := strings.CutPrefix(e.scanner.Text(), "data: ")
		if !ok || !strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ") {
			continue
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			e.t.Fatal(err)
		}
		return name, m
	}
	e.t.Fatalf("the stream ends before %v: %v", names, e.scanner.Err())
	return "", m
}

func TestEventsFollowACall(t *testing.T) {
	const secret = "canary-secret"
	rig := newRig(t, func(_ *rig, o *Options) {
		o.Redact = func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") }
	})
	rig.todayPause = 0
	events := rig.signIn(t).listen(t)
	events.next("hello")
	call := rig.calls[0]
	call.ID, call.Outcome, call.Client.Name = "live-1", perigee.OutcomeOpen, "<script>alert(1)</script>"
	w := rig.hub.Watch(&call, nil)
	if _, m := events.next("began"); m.ID != "live-1" || !strings.Contains(m.HTML, `id="open-live-1"`) || strings.Contains(m.HTML, "<script>") {
		t.Errorf("began: %+v", m)
	}
	w.Event(&perigee.Event{Kind: perigee.EventStart, Upstream: "studio", Model: "gemini-3-pro"})
	if _, m := events.next("started"); !strings.Contains(m.HTML, "gemini-3-pro") || !strings.Contains(m.HTML, "studio") {
		t.Errorf("started: %+v", m)
	}
	var text string
	for _, piece := range []string{"<b>one</b> and cana", "ry-sec", "ret then ", "the rest "} {
		w.Event(&perigee.Event{Kind: perigee.EventText, Text: piece})
	}
	for !strings.HasSuffix(text, "the rest ") {
		_, m := events.next("text")
		text += m.Text
	}
	if text != "<b>one</b> and [redacted] then the rest " {
		t.Errorf("text: %q", text)
	}
	w.Event(&perigee.Event{Kind: perigee.EventCall, Call: &perigee.FunctionCall{Name: "read_" + secret}})
	if _, m := events.next("tool"); m.Text != "read_[redacted]" {
		t.Errorf("tool: %+v", m)
	}
	w.Event(&perigee.Event{Kind: perigee.EventText, Text: "end"})
	call.Outcome, call.Error = perigee.OutcomeDone, secret
	w.Ended(&call)
	if name, m := events.next("text", "ended"); name != "text" || m.Text != "end" {
		t.Errorf("the last word: %s %+v", name, m)
	}
	if _, m := events.next("ended"); !strings.HasPrefix(m.HTML, `<tr id="call-live-1"`) || strings.Contains(m.HTML, secret) {
		t.Errorf("ended: %+v", m)
	}
	if _, m := events.next("today"); !strings.Contains(m.HTML, "Calls today") {
		t.Errorf("today: %+v", m)
	}
}

// Event streams end when the daemon drains, and their number is bounded.
func TestEventStreamsAreBounded(t *testing.T) {
	rig := newRig(t)
	b := rig.signIn(t)
	for range maxStreams {
		b.listen(t).next("hello")
	}
	if answer := b.do("GET", "/dashboard/events", nil); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more: %s", answer.Status)
	}
	rig.hub.Stop()
	await.Until(t, "the streams to end", func() bool { return len(rig.seats) == 0 })
	if answer := b.do("GET", "/dashboard/events", nil); answer.StatusCode != http.StatusOK {
		t.Errorf("while draining: %s", answer.Status)
	}
	b.get("/")
}

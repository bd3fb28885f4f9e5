package antigravity

import (
	"regexp"
	"testing"

	"perigee"
)

func promptOf(texts ...string) *perigee.Prompt {
	p := &perigee.Prompt{}
	for i, text := range texts {
		role := []string{perigee.RoleUser, perigee.RoleModel}[i%2]
		p.Contents = append(p.Contents, perigee.Content{Role: role, Parts: []perigee.Part{{Text: text}}})
	}
	return p
}

func TestSessionStaysTheSameFromTurnToTurn(t *testing.T) {
	first, later, other := promptOf("fix it"), promptOf("fix it", "done", "thanks"), promptOf("break it")
	unnamed := perigee.Client{}
	if SessionID(unnamed, first) != SessionID(unnamed, later) {
		t.Error("the session changes when the conversation goes on")
	}
	if SessionID(unnamed, first) == SessionID(unnamed, other) || SessionID(unnamed, first) == SessionID(perigee.Client{Key: "bob"}, first) {
		t.Error("two conversations share a session")
	}
	if named := (perigee.Client{Session: "s1"}); SessionID(named, first) != SessionID(named, other) {
		t.Error("a session that the client names does not stay the same")
	}
	if got, want := SessionID(perigee.Client{Key: "bob"}, first), "-2517778191703083222"; got != want {
		t.Errorf("got %s, want %s", got, want) // prompt caches outlive a release
	}
}

func TestSessionOfTheClientIsKept(t *testing.T) {
	p := promptOf("hi")
	if with := WithSession(p, "-1"); string(with.Extra.Get("sessionId")) != `"-1"` || p.Extra != nil {
		t.Errorf("got %v, and the original has %v", with.Extra, p.Extra)
	}
	p.Extra = perigee.Fields{{Name: "sessionId", Value: []byte(`"own"`)}}
	if WithSession(p, "-1") != p || WithSession(promptOf("hi"), "").Extra != nil {
		t.Error("a session was added")
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		envelope Envelope
		want     string
	}{
		{Envelope{Project: "p", Model: `a"b`, Type: typeAgent, RequestID: "agent-1"}, `{"project":"p","model":"a\"b","userAgent":"antigravity","requestType":"agent","requestId":"agent-1","request":{}}`},
		{Envelope{Project: "p", Model: "m", Type: TypeSearch}, `{"project":"p","model":"m","userAgent":"antigravity","requestType":"web_search","request":{}}`},
		{Envelope{Project: "p", Model: "m", Type: typeAgent, RequestID: "agent-1", CLI: true}, `{"project":"p","model":"m","request":{}}`},
	} {
		before, after := c.envelope.Wrap()
		if got := string(before) + "{}" + string(after); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestUnwrap(t *testing.T) {
	for in, want := range map[string]string{
		`{"traceId":"x","response":{"a":1}}`: `{"a":1}`, `{"a":1}`: `{"a":1}`, `{"response":1}`: `{"response":1}`, `[]`: `[]`, ``: ``,
	} {
		if got := string(Unwrap([]byte(in))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestRequestIDNamesTheAttempt(t *testing.T) {
	first := RequestID("call", 1)
	if !regexp.MustCompile(`^agent-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(first) {
		t.Errorf("got %s", first)
	}
	if first != RequestID("call", 1) || first == RequestID("call", 2) || first == RequestID("other", 1) {
		t.Error("the id does not depend on the call and the attempt alone")
	}
}

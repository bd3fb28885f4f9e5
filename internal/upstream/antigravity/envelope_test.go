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
		p.Contents = append(p.Contents, perigee.Content{Role: role, Parts: []perigee.Part{{Text: perigee.Plain(text)}}})
	}
	return p
}

func TestSessionStaysTheSameFromTurnToTurn(t *testing.T) {
	first, later, other := promptOf("fix it"), promptOf("fix it", "done", "thanks"), promptOf("break it")
	unnamed := perigee.Client{}
	if sessionID(unnamed, first) != sessionID(unnamed, later) {
		t.Error("the session changes when the conversation goes on")
	}
	if sessionID(unnamed, first) == sessionID(unnamed, other) || sessionID(unnamed, first) == sessionID(perigee.Client{Key: "bob"}, first) {
		t.Error("two conversations share a session")
	}
	if named := (perigee.Client{Session: "s1"}); sessionID(named, first) != sessionID(named, other) {
		t.Error("a session that the client names does not stay the same")
	}
	if got, want := sessionID(perigee.Client{Key: "bob"}, first), "-2517778191703083222"; got != want {
		t.Errorf("got %s, want %s", got, want) // prompt caches outlive a release
	}
}

func TestSessionOfTheClientIsKept(t *testing.T) {
	p := promptOf("hi")
	if with := withSession(p, "-1"); string(with.Extra.Get("sessionId")) != `"-1"` || p.Extra != nil {
		t.Errorf("got %v, and the original has %v", with.Extra, p.Extra)
	}
	p.Extra = perigee.Fields{{Name: "sessionId", Value: []byte(`"own"`)}}
	if withSession(p, "-1") != p || withSession(promptOf("hi"), "").Extra != nil {
		t.Error("a session was added")
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		envelope envelope
		want     string
	}{
		{envelope{Project: "p", Model: `a"b`, Type: typeAgent, RequestID: "agent-1"}, `{"project":"p","model":"a\"b","userAgent":"antigravity","requestType":"agent","requestId":"agent-1","request":{}}`},
		{envelope{Project: "p", Model: "m", Type: typeSearch}, `{"project":"p","model":"m","userAgent":"antigravity","requestType":"web_search","request":{}}`},
		{envelope{Project: "p", Model: "m", Type: typeAgent, RequestID: "agent-1", CLI: true}, `{"project":"p","model":"m","request":{}}`},
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
		if got := string(unwrap([]byte(in))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestRequestIDNamesTheAttempt(t *testing.T) {
	first := requestID("call", 1)
	if !regexp.MustCompile(`^agent-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(first) {
		t.Errorf("got %s", first)
	}
	if first != requestID("call", 1) || first == requestID("call", 2) || first == requestID("other", 1) {
		t.Error("the id does not depend on the call and the attempt alone")
	}
}

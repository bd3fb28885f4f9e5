package route

import (
	"slices"
	"strings"
	"testing"

	"perigee"
)

// conditioned are rules of each condition, before one for all requests.
func conditioned() []Rule {
	long := func(n int64) bool { return n > 1000 }
	return []Rule{
		{Match: "claude-*", When: Condition{Text: "agent: sub", Agent: "sub"}, To: []string{"b"}, Model: "small"},
		{Match: "claude-*", When: Condition{Text: "input_tokens: >1000", InputTokens: long}, Model: "long"},
		{Match: "claude-*", When: Condition{Text: "images: true, tools: false", Images: new(true), Tools: new(false)}, To: []string{"b"}},
		{Match: "long", To: []string{"b", "a"}},
		{Match: "*", To: []string{"a"}},
	}
}

// conversation returns a request with a prompt.
func conversation(model string, prompt *perigee.Prompt, agent string) *perigee.Request {
	var body []byte
	for _, part := range prompt.Contents[0].Parts {
		said, _ := part.Text.Form()
		body = append(body, said...)
	}
	return perigee.NewRequest(perigee.Origin{ID: "call-test", Body: body, Client: perigee.Client{Agent: agent}}, model, true,
		func() (*perigee.Prompt, error) { return prompt, nil })
}

func text(s string) perigee.Part { return perigee.Part{Text: perigee.Plain(s)} }

func image() perigee.Part {
	return perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: "image/png", Data: "iVBO"}}
}

func said(parts ...perigee.Part) *perigee.Prompt {
	return &perigee.Prompt{Contents: []perigee.Content{{Role: perigee.RoleUser, Parts: parts}}}
}

// The first rule applies that matches the model and whose condition the request fulfils.
func TestConditions(t *testing.T) {
	withTools := said(image())
	withTools.Tools = []perigee.Tool{{Function: &perigee.Function{Name: "f"}}}
	result := said(perigee.Part{Kind: perigee.PartResponse, Response: &perigee.FunctionResponse{Name: "f", Media: []perigee.Part{image()}}})
	address := said(perigee.Part{Kind: perigee.PartFile, File: &perigee.File{MIME: "image/jpeg", URI: "https://example.com/a.jpg"}})
	document := said(perigee.Part{Kind: perigee.PartBlob, Blob: &perigee.Blob{MIME: "application/pdf", Data: "JVBE"}})
	for _, test := range []struct {
		name  string
		req   *perigee.Request
		asked string // "upstream/model"
	}{
		{"an ordinary request", conversation("claude-x", said(text("hi")), ""), "a/claude-x"},
		{"another agent's", conversation("claude-x", said(text("hi")), "agent-1"), "b/small"},
		{"a long one", conversation("claude-x", said(text(strings.Repeat("word ", 1000))), ""), "b/long"},
		{"a long one of another agent", conversation("claude-x", said(text(strings.Repeat("word ", 1000))), "agent-1"), "b/small"},
		{"an image", conversation("claude-x", said(text("hi"), image()), ""), "b/claude-x"},
		{"an image in a result", conversation("claude-x", result, ""), "b/claude-x"},
		{"the address of an image", conversation("claude-x", address, ""), "b/claude-x"},
		{"a document", conversation("claude-x", document, ""), "a/claude-x"},
		{"an image and tools", conversation("claude-x", withTools, ""), "a/claude-x"},
		{"another model", conversation("gemini-x", said(image()), "agent-1"), "a/gemini-x"},
		{"an alias, by its own name", conversation("claude-alias", said(text("hi")), "agent-1"), "b/small"},
		{"a name with an upstream", conversation("a/claude-x", said(text("hi")), "agent-1"), "a/claude-x"},
	} {
		a, b := says("one"), says("two")
		r := router(t, Options{Targets: []Target{{"a", a}, {"b", b}}, Rules: conditioned(), Aliases: map[string]string{"claude-alias": "gemini-y"}})
		if _, err := askFor(r, test.req); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		var got []string
		for _, model := range a.asked {
			got = append(got, "a/"+model)
		}
		for _, model := range b.asked {
			got = append(got, "b/"+model)
		}
		if !slices.Equal(got, []string{test.asked}) {
			t.Errorf("%s: asked %v, want %s", test.name, got, test.asked)
		}
	}
}

// A conversation that cannot be decoded has neither images nor tools.
func TestConditionsOfAnUnreadableRequest(t *testing.T) {
	broken := perigee.NewRequest(perigee.Origin{}, "m", true, func() (*perigee.Prompt, error) { return nil, perigee.Errorf(perigee.ClassInvalid, "broken") })
	for _, test := range []struct {
		c    Condition
		want bool
	}{
		{Condition{Images: new(true)}, false}, {Condition{Tools: new(true)}, false}, {Condition{Tools: new(false), Images: new(false)}, true},
	} {
		if got := of(broken)(&Rule{When: test.c}); got != test.want {
			t.Errorf("%+v: got %v", test.c, got)
		}
	}
}

// Without a request, only rules for all requests count, and a rule may name the model.
func TestRuleThatNamesAModel(t *testing.T) {
	r := router(t, Options{Targets: []Target{{"a", says("one")}, {"b", says("two")}}, Aliases: map[string]string{"fast": "b/gemini-3-flash-high"}, Rules: []Rule{
		{Match: "gpt-*", When: Condition{Agent: "main"}, Model: "main"},
		{Match: "gpt-*", Model: "fast"},
		{Match: "gemini-*", To: []string{"a"}},
		{Match: "long", Model: "gemini-3-flash"},
	}})
	for asked, want := range map[string]string{
		"gpt-5": "gemini-3-flash [b] [gpt-5 gemini-3-flash]", "long": "gemini-3-flash [a] [long gemini-3-flash]",
		"gemini-3-flash": "gemini-3-flash [a] [gemini-3-flash gemini-3-flash]",
	} {
		if got := r.Model(asked) + " [" + strings.Join(r.Upstreams(asked), " ") + "] [" + strings.Join(r.Names(t.Context(), asked), " ") + "]"; got != want {
			t.Errorf("%s: got %s, want %s", asked, got, want)
		}
	}
	found, _ := r.resolve("gpt-5", unconditional)
	if found.thinking == nil || found.thinking.Level != "high" {
		t.Errorf("the suffix of the model is lost: %+v", found.thinking)
	}
}

// A request for embeddings has an agent, but neither a length nor a conversation.
func TestConditionsOfEmbeddings(t *testing.T) {
	applies := ofEmbedding(&perigee.Origin{Client: perigee.Client{ParentAgent: "agent-1"}})
	for _, test := range []struct {
		c    Condition
		want bool
	}{
		{Condition{}, true}, {Condition{Agent: "sub"}, true}, {Condition{Agent: "main"}, false},
		{Condition{InputTokens: func(int64) bool { return true }}, false}, {Condition{Images: new(false)}, false}, {Condition{Tools: new(false)}, false},
	} {
		if got := applies(&Rule{When: test.c}); got != test.want {
			t.Errorf("%+v: got %v", test.c, got)
		}
	}
}

// A conversation that is stored at an upstream stays there, with the model that a rule chose.
func TestRuleOfAPinnedRequest(t *testing.T) {
	a, b := says("one"), says("two")
	r := router(t, Options{Targets: []Target{{"a", a}, {"b", b}}, Rules: []Rule{
		{Match: "gpt-*", To: []string{"a"}, Model: "elsewhere"}, {Match: "gpt-*", To: []string{"b"}, Model: "m"}, {Match: "*", To: []string{"a"}}}})
	req := request("gpt-5")
	req.Pinned = "b"
	if _, err := askFor(r, req); err != nil || len(a.asked) > 0 || !slices.Equal(b.asked, []string{"m"}) {
		t.Errorf("asked %v and %v, %v", a.asked, b.asked, err)
	}
}

// A question decides as many conditions as it has answers for; the rest are listed.
func TestExplainConditions(t *testing.T) {
	r := router(t, Options{Targets: []Target{{"a", says("one")}, {"b", says("two")}}, Rules: conditioned()})
	for _, test := range []struct {
		q    perigee.RouteQuestion
		want string
	}{
		{perigee.RouteQuestion{}, "a/claude-x | agent: sub | input_tokens: >1000 | images: true, tools: false"},
		{perigee.RouteQuestion{Agent: "sub"}, "b/small"},
		{perigee.RouteQuestion{Agent: "main", InputTokens: new(int64(5))}, "a/claude-x | images: true, tools: false"},
		{perigee.RouteQuestion{Agent: "main", InputTokens: new(int64(5000))}, "b/long"},
		{perigee.RouteQuestion{Agent: "main", Tools: new(true)}, "a/claude-x | input_tokens: >1000"},
		{perigee.RouteQuestion{Agent: "main", InputTokens: new(int64(5)), Tools: new(false), Images: new(true)}, "b/claude-x"},
	} {
		test.q.Model = "claude-x"
		got, err := r.Explain(t.Context(), test.q, func(string, string) perigee.RouteCandidate { return perigee.RouteCandidate{Usable: true} })
		said := []string{got.Upstream + "/" + got.Name}
		for _, c := range got.Conditions {
			said = append(said, c.When)
		}
		if text := strings.Join(said, " | "); text != test.want || err != nil {
			t.Errorf("%+v: got %s, %v; want %s", test.q, text, err, test.want)
		}
	}
	got, _ := r.Explain(t.Context(), perigee.RouteQuestion{Model: "claude-x", InputTokens: new(int64(5000))},
		func(string, string) perigee.RouteCandidate { return perigee.RouteCandidate{Usable: true} })
	want := "models.routes sends claude-* when agent: sub to small at b; whether it applies depends on the request\n" +
		"models.routes sends claude-* when input_tokens: >1000 to long\nmodels.routes sends long to b, a"
	if steps := strings.Join(got.Steps, "\n"); steps != want {
		t.Errorf("got %s\nwant %s", steps, want)
	}
}

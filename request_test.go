package perigee_test

import (
	"strings"
	"testing"

	"perigee"
)

func TestReleaseDropsBodyAndPromptOfAllCopies(t *testing.T) {
	var order []string
	req := perigee.NewRequest(perigee.Origin{Body: []byte("{}"), Free: func() { order = append(order, "free") }}, "m", true,
		func() (*perigee.Prompt, error) { return &perigee.Prompt{}, nil })
	model := req.WithModel("other")
	prompt := model.WithPrompt(&perigee.Prompt{})
	prompt.OnRelease(func() {
		if _, err := req.Prompt(); err != nil || req.Body == nil {
			t.Errorf("the request is gone before its release was told: %v", err)
		}
		order = append(order, "hook")
	})
	req.Release()
	prompt.Release()
	for name, r := range map[string]*perigee.Request{"request": req, "with model": model, "with prompt": prompt} {
		if _, err := r.Prompt(); err == nil || r.Body != nil {
			t.Errorf("%s has its prompt or its body after the release", name)
		}
	}
	if len(order) != 2 || order[0] != "hook" || order[1] != "free" {
		t.Errorf("called %v, want hook and free once each", order)
	}
}

func TestKeptMemoryIsFreedByTheLastKeeper(t *testing.T) {
	freed := 0
	req := perigee.NewRequest(perigee.Origin{Free: func() { freed++ }}, "m", true, nil)
	early, late := req.Keep(), req.WithModel("other").Keep()
	early()
	req.Release()
	if freed != 0 {
		t.Error("freed while it was kept")
	}
	late()
	if freed != 1 {
		t.Errorf("freed %d times", freed)
	}
}

// A prompt is not decoded for an estimate of its tokens.
func TestEstimateDecodesNothing(t *testing.T) {
	body := []byte(strings.Repeat("word", 100))
	for _, dialect := range []perigee.Dialect{perigee.DialectGemini, perigee.DialectAnthropic, perigee.DialectOpenAIChat, perigee.DialectOpenAIResponses} {
		decoded := 0
		req := perigee.NewRequest(perigee.Origin{Dialect: dialect, Body: body}, "m", true, func() (*perigee.Prompt, error) {
			decoded++
			return &perigee.Prompt{System: &perigee.Content{Parts: []perigee.Part{{Kind: perigee.PartText, Text: perigee.Plain("four")}}}}, nil
		})
		if got := req.WithModel("n").EstimateTokens(); got != 100 || decoded != 0 {
			t.Errorf("%s: %d tokens, decoded %d times", dialect, got, decoded)
		}
		if _, err := req.Prompt(); err != nil {
			t.Fatal(err)
		}
		want := int64(1)
		if dialect == perigee.DialectGemini {
			want = 100
		}
		if got := req.EstimateTokens(); got != want || decoded != 1 {
			t.Errorf("%s, decoded: %d tokens, want %d", dialect, got, want)
		}
	}
}

package perigee_test

import (
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

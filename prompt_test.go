package perigee_test

import (
	"reflect"
	"strings"
	"testing"

	"perigee"
)

func twoTurns() *perigee.Prompt {
	return &perigee.Prompt{Contents: []perigee.Content{
		{Role: perigee.RoleUser, Parts: []perigee.Part{{Text: perigee.Plain("a")}, {Text: perigee.Plain("b")}}},
		{Role: perigee.RoleModel, Parts: []perigee.Part{{Text: perigee.Plain("c")}}},
	}}
}

func TestEditorLeavesTheOriginalAsItIs(t *testing.T) {
	p := twoTurns()
	e := p.Edit()
	e.Generation.Stop = []string{"END"}
	e.Part(0, 1).Text = perigee.Plain("x")
	e.Part(0, 0).Text = perigee.Plain("y")
	e.Content(1).Role = "other"
	if !reflect.DeepEqual(p, twoTurns()) {
		t.Errorf("the original became %+v", p)
	}
	if got := e.Contents; got[0].Parts[0].Text != perigee.Plain("y") || got[0].Parts[1].Text != perigee.Plain("x") || got[1].Role != "other" ||
		e.Generation.Stop == nil {
		t.Errorf("got %+v", e.Prompt)
	}
	if &e.Contents[1].Parts[0] != &p.Contents[1].Parts[0] {
		t.Error("parts were copied that did not change")
	}
}

func TestEditPartsCopiesOnlyWhatChanges(t *testing.T) {
	parts := twoTurns().Contents[0].Parts
	if same := perigee.EditParts(parts, func(*perigee.Part) bool { return true }); &same[0] != &parts[0] {
		t.Error("parts were copied although nothing changed")
	}
	for name, edit := range map[string]func(*perigee.Part) bool{
		"b Y": func(p *perigee.Part) bool {
			p.Text = map[perigee.Text]perigee.Text{perigee.Plain("a"): perigee.Plain("b"), perigee.Plain("b"): perigee.Plain("Y")}[p.Text]
			return true
		},
		"a": func(p *perigee.Part) bool { return p.Text == perigee.Plain("a") },
		"b": func(p *perigee.Part) bool { return p.Text == perigee.Plain("b") },
		"":  func(*perigee.Part) bool { return false },
	} {
		got := ""
		for i, p := range perigee.EditParts(parts, edit) {
			text, _ := p.Text.Form()
			if got += text; i == 0 && name == "b Y" {
				got += " "
			}
		}
		if got != name {
			t.Errorf("got %q, want %q", got, name)
		}
	}
	if parts[0].Text != perigee.Plain("a") || parts[1].Text != perigee.Plain("b") {
		t.Errorf("the list given became %+v", parts)
	}
}

func TestEstimateBodyCountsMediaAsMedia(t *testing.T) {
	blob := strings.Repeat("A", 1<<20)
	for _, test := range []struct {
		body     string
		min, max int64
	}{
		{``, 0, 0},
		{`{"contents":[{"parts":[{"text":"` + strings.Repeat("word ", 8000) + `"}]}]}`, 10000, 10010},
		{`{"contents":[{"parts":[{"text":"` + strings.Repeat("日本語", 8000) + `"}]}]}`, 18000, 18010},
		{`{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data": "` + blob + `"}}]}]}`, 258, 1000},
		{`{"contents":[{"parts":[{"inline_data":{"data":"` + blob + `"}},{"text":"` + strings.Repeat("word ", 800) +
			`"},{"inline_data":{"data":"` + blob + `"}}]}]}`, 1516, 2600},
	} {
		if got := perigee.EstimateBody([]byte(test.body)); got < test.min || got > test.max {
			t.Errorf("%.80s: %d, want %d to %d", test.body, got, test.min, test.max)
		}
	}
}

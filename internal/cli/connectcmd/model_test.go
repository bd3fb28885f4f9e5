package connectcmd

import (
	"testing"

	"perigee"
	"perigee/internal/server/connect"
	"perigee/internal/store/config"
)

func TestModelsThatAreAnswered(t *testing.T) {
	cfg := new(config.Config)
	cfg.Models.Aliases = map[string]string{"claude-*": "gemini-3-flash"}
	c := catalog{config: cfg, complete: true, rows: []perigee.ModelRow{{ID: "gemini-3-flash", Upstream: "studio", Context: 7}}}
	for name, want := range map[string]bool{
		"gemini-3-flash": true, "studio/gemini-3-flash": true, "gemini-3-flash(high)": true, "gemini-3-flash-low": true, "claude-opus": true,
		"nosuch": false, "gemini-3-flash-fast": false, "other/gemini-3-flash": false,
	} {
		if got := c.answers(name); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if row := c.find("gemini-3-flash(8192)"); row == nil || row.Context != 7 {
		t.Errorf("got %v", row)
	}
	if got := c.choose(&connect.Client{Model: "gemini-2.5-pro"}, ""); got != "gemini-3-flash" {
		t.Errorf("got %q", got)
	}
	c.complete = false // an upstream could not be asked
	if !c.answers("nosuch") {
		t.Error("a model is missing that may be there")
	}
	c.complete, cfg.Models.Fallback = true, "gemini-3-flash"
	if !c.answers("nosuch") {
		t.Error("a model is missing although there is a fallback")
	}
}

package lsclient

import "testing"

// Names that are made of labels are the IDs of the cloud, by which models have prices.
func TestNamesOfLabels(t *testing.T) {
	for label, want := range map[string]string{
		"Claude Opus 4.6 (Thinking)": "claude-opus-4-6-thinking",
		"Claude Sonnet 4.6":          "claude-sonnet-4-6",
		"Gemini 3.1 Pro (High)":      "gemini-3.1-pro-high",
		"Gemini 3 Flash":             "gemini-3-flash",
		"GPT-OSS 120B (Medium)":      "gpt-oss-120b-medium",
	} {
		d := Described{Model: Model{Label: label}}
		if got := d.Name(); got != want {
			t.Errorf("%s: %s, want %s", label, got, want)
		}
	}
	if got := asID("Claude-Opus-4.6-Thinking"); got != "Claude-Opus-4-6-Thinking" {
		t.Errorf("got %s", got)
	}
}

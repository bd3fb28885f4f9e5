package command

import (
	"slices"
	"testing"
	"time"

	"perigee"
	"perigee/internal/lib/terminal"
)

// Models that share a quota share a row; those of the group with other numbers, or in another pool,
// have their own.
func TestQuotaIsGrouped(t *testing.T) {
	reset := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	row := func(model, group, pool string, left float64) perigee.QuotaRow {
		return perigee.QuotaRow{Model: model, Group: group, Pool: pool, Remaining: left, ResetsAt: reset}
	}
	grouped := byGroup([]perigee.QuotaRow{
		row("claude-opus", "claude", "antigravity", 1), row("claude-sonnet", "claude", "antigravity", 1),
		row("gemini-a", "gemini", "antigravity", 0.5), row("gemini-b", "gemini", "antigravity", 0.5), row("gemini-c", "gemini", "antigravity", 0.2),
		row("gemini-a", "gemini", "gemini-cli", 0.5), row("image", "image", "antigravity", 1),
	})
	var got []string
	for _, r := range grouped {
		got = append(got, r.Model+" "+r.Pool+" "+terminal.Percent(r.Remaining))
	}
	want := []string{"claude (2 models) antigravity 100%", "gemini-a and 1 more antigravity 50%", "gemini-c antigravity 20%", "gemini-a gemini-cli 50%", "image antigravity 100%"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

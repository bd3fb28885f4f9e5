package cli

import (
	"testing"
	"time"
)

func TestMomentsAsPeopleWriteThem(t *testing.T) {
	now := time.Date(2026, 3, 2, 10, 30, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"now": "2026-03-02T10:30:00Z", "today": "2026-03-02T00:00:00Z", "yesterday": "2026-03-01T00:00:00Z",
		"1h": "2026-03-02T09:30:00Z", "1h30m": "2026-03-02T09:00:00Z", "2d": "2026-02-28T10:30:00Z", "1w": "2026-02-23T10:30:00Z",
		"2026-01-31": "2026-01-31T00:00:00Z", "2026-01-31T01:02:03Z": "2026-01-31T01:02:03Z",
		"": "", "d": "", "-1h": "", "-2d": "", "0s": "", "1": "", "2x": "", "tomorrow": "", "99999d": "",
	} {
		got, ok := moment(text, now)
		if ok != (want != "") || ok && got.Format(time.RFC3339) != want {
			t.Errorf("%q: got %v %v, want %q", text, got, ok, want)
		}
	}
}

package dialect_test

import (
	"testing"

	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

func TestCacheMark(t *testing.T) {
	for value, want := range map[string]string{
		`{"type":"ephemeral"}`:                        "mark",
		`{"type":"ephemeral","ttl":"1h"}`:             "mark 1h",
		`{"ttl":"5m","type":"ephemeral","scope":"x"}`: "mark 5m",
		`null`:        "none",
		`"ephemeral"`: "none",
	} {
		c := rawjson.NewCursor([]byte(value))
		got := "none"
		if mark := dialect.ReadCacheMark(c); mark != nil {
			got = "mark"
			if mark.TTL != "" {
				got += " " + mark.TTL
			}
		}
		if got != want || c.Err() != nil {
			t.Errorf("%s: got %s, %v, want %s", value, got, c.Err(), want)
		}
	}
}

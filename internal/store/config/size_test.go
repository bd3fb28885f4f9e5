package config

import (
	"testing"

	"pgregory.net/rapid"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "1B": 1, "10MB": 10_000_000, "64MiB": 64 << 20, "64 MiB": 64 << 20, "64mib": 64 << 20,
		"1.5GiB": 3 << 29, "2KB": 2000, "1TiB": 1 << 40, "9223372036854775807": 1<<63 - 1,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "-1MB", "MiB", "1.5", "1 apple", "1e3MB", "9223372036854775808", "9000000TiB", "1..5MB", "0x10", "1M B", "NaNMB", "1M"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
}

func TestSizeReadsWhatItWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := Size(rapid.Int64Min(0).Draw(t, "size"))
		if got, err := ParseSize(size.String()); err != nil || got != size {
			t.Fatalf("%d is written %q, which is read as %d, %v", int64(size), size, int64(got), err)
		}
	})
}

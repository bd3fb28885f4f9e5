package config

import (
	"reflect"
	"testing"
)

func TestParseAutoSize(t *testing.T) {
	memory := findField(fieldsOf(reflect.TypeFor[Limits]()), "memory")
	for text, want := range map[string]AutoSize{"auto": 0, "64MiB": 64 << 20, "1.5GiB": 3 << 29, "100000000": 1e8} {
		got, err := memory.parse(text)
		if err != nil || got.Interface() != want {
			t.Errorf("%q is %v, %v, want %d", text, got, err, want)
		}
		if again, err := memory.parse(want.String()); err != nil || again.Interface() != want {
			t.Errorf("%q is written %q", text, want)
		}
	}
	for _, text := range []string{"", "0", "Auto", "none", "63MiB", "-1"} {
		if got, err := memory.parse(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}

package config

import (
	"fmt"
	"testing"
)

func TestHeaders(t *testing.T) {
	for text, want := range map[string]string{
		"a=b": "map[A:[b]]", " a = b%20c , d=e=f,": "map[A:[b c] D:[e=f]]", "": "map[]", "authorization=Bearer x": "map[Authorization:[Bearer x]]",
		"a=1,a=2": "map[A:[1 2]]", "a=100%": "map[A:[100%]]", "a=": "map[A:[]]",
	} {
		if got, ok := parseHeaders(text); !ok || fmt.Sprint(got) != want || checkHeaders(text) != "" {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"secret", "=secret", "a b=secret", "a:=b", "a=b%0d%0ac: d", "ä=b"} {
		if got, ok := parseHeaders(text); ok || checkHeaders(text) != "expected headers as name=value, separated by commas" {
			t.Errorf("%q: %v", text, got)
		}
	}
}

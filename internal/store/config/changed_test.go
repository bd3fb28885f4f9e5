package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee"
)

func TestChangedNamesSettingsAndNoValues(t *testing.T) {
	key := func(name, secret string) Key { return Key{Name: name, Secret: perigee.NewSecret(secret)} }
	before := &Config{Listen: "127.0.0.1:1", Keys: []Key{key("a", "secret-one"), key("b", "x")}, Upstreams: []Upstream{{Name: "u"}, {Name: "v"}}}
	after := &Config{Listen: "127.0.0.1:2", Keys: []Key{key("a", "secret-two"), key("c", "x")}, Upstreams: []Upstream{{Name: "v"}, {Name: "u"}},
		Retention: Retention{Calls: time.Hour}}
	got := Changed(before, after)
	want := []string{"listen", "keys.a changed", "keys.c added", "keys.b removed", "upstreams reordered", "retention.calls"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if text := fmt.Sprint(got); strings.Contains(text, "secret-") || strings.Contains(text, "127.0.0.1") {
		t.Errorf("a value is named: %s", text)
	}
	if got := Changed(before, before); len(got) != 0 {
		t.Errorf("nothing changed, but got %q", got)
	}
}

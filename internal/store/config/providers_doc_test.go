package config

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Each entry of docs/providers.md is a valid upstream, without warnings.
func TestEntriesOfProvidersHold(t *testing.T) {
	page, err := os.ReadFile("../../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	entries := regexp.MustCompile("`(\\{name: .*\\})`").FindAllStringSubmatch(string(page), -1)
	if len(entries) < 17 {
		t.Fatalf("%d entries", len(entries))
	}
	env := map[string]string{}
	for _, name := range regexp.MustCompile(`env:(\w+)`).FindAllStringSubmatch(string(page), -1) {
		env[name[1]] = "a-key-of-sixteen-characters"
	}
	for _, e := range entries {
		text := "upstreams:\n  - " + strings.NewReplacer("RESOURCE", "resource", "REGION", "us-east-1", "HOST", "example.com").Replace(e[1]) + "\n"
		loaded, err := Load(exampleSources(text, env))
		if err != nil || len(loaded.Warnings) > 0 || len(loaded.Config.Upstreams) != 1 {
			t.Errorf("%s: %v, %v", e[1], err, loaded)
		}
	}
}

package doctor

import (
	"errors"
	"os"
	"strings"
	"testing"

	"perigee/internal/daemon/gateway"
	"perigee/internal/store/config"
	"perigee/internal/upstream/api"
)

// Every kind of upstream can be built, checked and observed, and is in the manual. Every builder
// and every provider with API keys belongs to a kind.
func TestEveryKindIsComplete(t *testing.T) {
	manual, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(manual)), " ")
	builders := gateway.Builders()
	withKeys := 0
	for _, k := range config.Kinds {
		if builders[k.Name] == nil {
			t.Errorf("kind %s has no builder", k.Name)
		}
		if provider := api.Providers[k.Name]; k.Keys != (provider != nil) {
			t.Errorf("kind %s: keys %v, but it has a provider: %v", k.Name, k.Keys, provider != nil)
		} else if k.Keys {
			if withKeys++; provider(config.Upstream{Name: "x", Kind: k.Name}) == nil || k.KeyVariable == "" || k.URL == "" {
				t.Errorf("kind %s lacks a provider, a URL or a variable for its keys", k.Name)
			}
		}
		u := UpstreamOf(config.Upstream{Name: "x", Kind: k.Name, URL: k.URL}, &config.Loaded{Config: &config.Config{}})
		if r := u.failed(t.Context(), errors.New("odd")); r.Status != Fail || r.Fix == "" || r.Check != NameUpstream+"x" {
			t.Errorf("kind %s: the check is %+v", k.Name, r)
		}
		if k.Provider == "" {
			t.Errorf("kind %s has no name in telemetry", k.Name)
		}
		if !strings.Contains(text, k.Name+" "+k.About+".") || !strings.Contains(text, "`"+k.Name+"`") {
			t.Errorf("docs/configuration.md does not explain kind %s", k.Name)
		}
	}
	if len(builders) != len(config.Kinds) || len(api.Providers) != withKeys || withKeys == 0 {
		t.Errorf("%d kinds, %d of them with keys; %d builders, %d providers", len(config.Kinds), withKeys, len(builders), len(api.Providers))
	}
}

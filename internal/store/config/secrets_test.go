package config

import (
	"slices"
	"testing"

	"perigee"
)

func TestSecretsOfAConfiguration(t *testing.T) {
	t.Parallel()
	s := perigee.NewSecret
	c := &Config{
		Proxy: s("http://user:of-the-proxy@proxy.example.com"),
		Keys:  []Key{{Name: "a", Secret: s("of-a")}, {Name: "b", Secret: s("of-b")}},
		Upstreams: []Upstream{
			{Kind: KindGemini, Keys: []perigee.Secret{s("up-1"), s("up-2")}, Proxy: s("socks5://127.0.0.1:1080")},
			{Kind: KindAntigravity, OAuth: OAuth{ClientSecret: s("of-the-client")}},
		},
		Store:     Store{URL: s("postgres://perigee:of-the-store@db.example.com/perigee"), SealKey: s("sealing")},
		Telemetry: Telemetry{Headers: []perigee.Secret{s("authorization=Bearer%20of-the-collector,x-tenant=blue")}},
	}
	var got []string
	for _, secret := range c.Secrets() {
		got = append(got, secret.Reveal())
	}
	slices.Sort(got)
	want := []string{"authorization=Bearer%20of-the-collector,x-tenant=blue", "of-a", "of-b", "of-the-client", "of-the-collector", "of-the-proxy", "of-the-store", "sealing", "up-1", "up-2"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

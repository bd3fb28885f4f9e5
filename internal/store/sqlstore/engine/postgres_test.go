package engine

import (
	"testing"
	"time"

	"perigee"
)

// TestNoSecretInTheName looks at what every message about the database begins with.
func TestNoSecretInTheName(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://ada:hunter22@db.example.com/perigee?sslmode=disable": "postgres://db.example.com:5432/perigee",
		"postgres://ada:hunter22@/perigee?host=/run/postgresql":          "postgres:///perigee?host=/run/postgresql",
	} {
		db, err := newPostgres(Options{URL: perigee.NewSecret(address), ReadOnly: true})
		if err != nil || db.Name != want || db.Driver.(*postgres).driver.config.ConnectTimeout != connectTime || db.Timeout < time.Second {
			t.Errorf("got %v, %v, want %s", db, err, want)
		}
	}
}

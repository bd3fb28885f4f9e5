package sqlstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

// TestBounds: what calls leave behind for hours is bounded, and the oldest go first.
func TestBounds(t *testing.T) {
	onEngines(t, func(t *testing.T, fresh fresh) {
		t.Run("sessions", func(t *testing.T) { testBoundSessions(t, fresh) })
		t.Run("signatures", func(t *testing.T) { testBoundSignatures(t, fresh) })
	})
	t.Run("requests", func(t *testing.T) {
		needPostgres(t)
		testBoundRequests(t, freshPostgres)
	})
}

func testBoundSessions(t *testing.T, fresh fresh) {
	now, options := noon, fresh(t)
	options.Now = func() time.Time { return now }
	s := openWith(t, options)
	s.bounds.sessions = 10
	sessions := s.Sessions("antigravity")
	for i := range 25 {
		now = now.Add(time.Second)
		if err := sessions.SaveSession(t.Context(), fmt.Sprint("session-", i), "claude", "a@example.com", ""); err != nil {
			t.Fatal(err)
		}
	}
	finishUpkeep(t, s)
	known, err := sessions.Known(t.Context(), 100)
	if err != nil || len(known) != 10 || known[0].Session != "session-24" || known[9].Session != "session-15" {
		t.Errorf("%d sessions are left, %v (%v)", len(known), known, err)
	}
}

func testBoundSignatures(t *testing.T, fresh fresh) {
	s := openWith(t, fresh(t))
	s.bounds.signatureLimit = 100 << 10
	var keys []string
	for i := range 40 {
		key := fmt.Sprint("key-", i)
		keys = append(keys, key)
		signature := perigee.Signature{Key: key, Value: strings.Repeat("v", 5<<10), Kind: "seal", Expires: noon.Add(time.Hour + time.Duration(i)*time.Second)}
		if err := s.SaveSignatures(t.Context(), []perigee.Signature{signature}); err != nil {
			t.Fatal(err)
		}
	}
	finishUpkeep(t, s)
	found, err := s.FindSignatures(t.Context(), keys)
	if err != nil || len(found) != 19 {
		t.Errorf("%d signatures are left (%v), want the 19 that fit into 100 KiB", len(found), err)
	}
	for _, g := range found {
		if g.Expires.Before(noon.Add(time.Hour + 21*time.Second)) {
			t.Errorf("%s is left, which is older than others that are gone", g.Key)
		}
	}
}

// Only replicas that share a database count requests in it.
func testBoundRequests(t *testing.T, fresh fresh) {
	s := openWith(t, fresh(t))
	if _, err := s.db.Write.Exec(`INSERT INTO key_requests (client_key, paid_us, wait_us) VALUES ('removed long ago', 1, 0)`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.TakeRequests(t.Context(), "laptop", 1, 60); err != nil {
		t.Fatal(err)
	}
	finishUpkeep(t, s)
	var name string
	if _, err := engine.One(t.Context(), s.db, `SELECT client_key FROM key_requests`, nil, &name); err != nil || name != "laptop" {
		t.Errorf("%q is left (%v), want only the key that just asked", name, err)
	}
	var rows int
	if _, err := engine.One(t.Context(), s.db, `SELECT count(*) FROM key_requests`, nil, &rows); err != nil || rows != 1 {
		t.Errorf("%d keys are left (%v)", rows, err)
	}
}

package sqlstore

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

// TestAudit is what every engine must do with the audit log.
func TestAudit(t *testing.T) {
	tests := []struct {
		name string
		run  func(t *testing.T, s *Store)
	}{
		{"an entry comes back as it was saved", testAuditRoundTrip},
		{"entries come newest first and in pages", testAuditPages},
		{"entries are found by time, action and actor", testAuditFilters},
		{"entries older than a year are removed in batches", testAuditAge},
		{"more entries than the bound are removed, reading first", testAuditBounds},
	}
	onNewerSchemas(t, func(t *testing.T, fresh fresh) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) { test.run(t, openWith(t, fresh(t))) })
		}
	})
}

func auditEntry(n int, action string) perigee.AuditEntry {
	return perigee.AuditEntry{ID: fmt.Sprintf("%06d", n), Time: noon.Add(time.Duration(n) * time.Second), Action: action,
		Actor: perigee.ActorToken, From: "192.0.2.7", Object: "ada@example.com", Detail: "upstream “gravity”", Result: "ok", Call: "c"}
}

func saveAudit(t *testing.T, s *Store, entries ...perigee.AuditEntry) {
	t.Helper()
	for _, e := range entries {
		if err := s.SaveAudit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

func auditIDs(t *testing.T, s *Store, q perigee.AuditQuery) (ids []string) {
	t.Helper()
	entries, err := s.AuditEntries(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

func wantIDs(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func testAuditRoundTrip(t *testing.T, s *Store) {
	for i, action := range []string{perigee.AuditAccountExport, perigee.AuditTraceList} { // written in two ways
		e := auditEntry(i, action)
		saveAudit(t, s, e)
		got, err := s.AuditEntries(t.Context(), perigee.AuditQuery{Limit: 1})
		if err != nil || len(got) != 1 || got[0] != e {
			t.Errorf("got %+v, %v; want %+v", got, err, e)
		}
		if err := s.SaveAudit(t.Context(), e); err == nil {
			t.Error("an entry was written over")
		}
	}
	if err := s.SaveAudit(t.Context(), perigee.AuditEntry{}); err == nil {
		t.Error("an entry without an id was saved")
	}
}

func testAuditPages(t *testing.T, s *Store) {
	for i := range 5 {
		saveAudit(t, s, auditEntry(i, perigee.AuditAccountUse))
	}
	same := auditEntry(3, perigee.AuditAccountUse)
	same.ID = "000003b"
	saveAudit(t, s, same)
	wantIDs(t, "first page", auditIDs(t, s, perigee.AuditQuery{Limit: 2}), "000004", "000003b")
	wantIDs(t, "second page", auditIDs(t, s, perigee.AuditQuery{Limit: 2, Before: "000003b"}), "000003", "000002")
	if _, err := s.AuditEntries(t.Context(), perigee.AuditQuery{Before: "x"}); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassNotFound {
		t.Errorf("got %v", err)
	}
}

func testAuditFilters(t *testing.T, s *Store) {
	saveAudit(t, s, auditEntry(0, perigee.AuditAccountUse), auditEntry(1, perigee.AuditAccountImport), auditEntry(2, perigee.AuditConfigReload))
	byFile := auditEntry(3, perigee.AuditConfigReload)
	byFile.Actor = perigee.ActorFile
	saveAudit(t, s, byFile)
	wantIDs(t, "since", auditIDs(t, s, perigee.AuditQuery{Since: noon.Add(2 * time.Second)}), "000003", "000002")
	wantIDs(t, "until", auditIDs(t, s, perigee.AuditQuery{Until: noon.Add(time.Second)}), "000000")
	wantIDs(t, "action", auditIDs(t, s, perigee.AuditQuery{Action: "account.*"}), "000001", "000000")
	wantIDs(t, "actor", auditIDs(t, s, perigee.AuditQuery{Actor: "file"}), "000003")
	wantIDs(t, "both", auditIDs(t, s, perigee.AuditQuery{Actor: "file", Action: "account.*"}))
}

func testAuditAge(t *testing.T, s *Store) {
	for i := range upkeepRows + 1 {
		e := auditEntry(i, perigee.AuditTraceList)
		e.Time = noon.Add(-perigee.AuditMaxAge - time.Hour + time.Duration(i))
		saveAudit(t, s, e)
	}
	kept := auditEntry(9999, perigee.AuditTraceList)
	kept.Time = noon.Add(-perigee.AuditMaxAge + time.Hour)
	saveAudit(t, s, kept)
	rounds := 1
	for more := true; more; rounds++ {
		var err error
		if _, more, err = s.Upkeep(t.Context(), time.Time{}); err != nil || rounds > 10 {
			t.Fatal(rounds, err)
		}
	}
	if _, _, err := s.Upkeep(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, "left", auditIDs(t, s, perigee.AuditQuery{}), "009999")
	if rounds < 3 {
		t.Errorf("%d entries went in %d rounds", upkeepRows+1, rounds-1)
	}
}

func testAuditBounds(t *testing.T, s *Store) {
	for i := range 20 {
		action := perigee.AuditAccountUse
		if i%2 == 0 {
			action = perigee.AuditTraceRead
		}
		saveAudit(t, s, auditEntry(i, action))
	}
	bounds := []auditBound{{auditBounds[0].condition, 4}, {auditBounds[1].condition, 10}}
	trim := func() {
		for range 3 {
			err := s.db.Transact(t.Context(), "test", func(ctx context.Context, tx engine.Tx) error {
				_, err := s.trimAudit(ctx, tx, bounds)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	trim()
	wantIDs(t, "reading", auditIDs(t, s, perigee.AuditQuery{Action: "trace.*"}), "000018", "000016", "000014", "000012")
	wantIDs(t, "changes", auditIDs(t, s, perigee.AuditQuery{Action: "account.*"}), "000019", "000017", "000015", "000013", "000011", "000009")
	saveAudit(t, s, auditEntry(20, perigee.AuditAccountUse))
	trim()
	if n := len(auditIDs(t, s, perigee.AuditQuery{})); n != 11 {
		t.Errorf("%d entries: the log is counted again within the hour", n)
	}
}

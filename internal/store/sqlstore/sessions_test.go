package sqlstore

import (
	"testing"
	"time"
)

func TestSessions(t *testing.T) { onNewerSchemas(t, testSessions) }

func testSessions(t *testing.T, fresh fresh) {
	now, options := noon, fresh(t)
	options.Now = func() time.Time { return now }
	s := openWith(t, options)
	gravity := s.Sessions("gravity")
	save := func(session, family, email, pool string) {
		t.Helper()
		if err := gravity.SaveSession(t.Context(), session, family, email, pool); err != nil {
			t.Fatal(err)
		}
	}
	want := func(session, family, email, pool string) {
		t.Helper()
		gotEmail, gotPool, err := gravity.FindSession(t.Context(), session, family)
		if err != nil || gotEmail != email || gotPool != pool {
			t.Errorf("%q, %s: got %q, %q, %v, want %q, %q", session, family, gotEmail, gotPool, err, email, pool)
		}
	}
	want("s1", "gemini", "", "")
	save("s1", "gemini", "ada@example.com", "antigravity")
	save("s1", "claude", "bob@example.com", "antigravity")
	save("s\x00\xff", "gemini", "cyd@example.com", "gemini-cli")
	want("s1", "gemini", "ada@example.com", "antigravity")
	want("s1", "claude", "bob@example.com", "antigravity")
	want("s\x00\xff", "gemini", "cyd@example.com", "gemini-cli")
	want("s2", "gemini", "", "")
	now = noon.Add(time.Minute)
	save("s1", "claude", "bob@example.com", "antigravity")
	for most, want := range map[int]int{1: 1, 10: 3} {
		list, err := gravity.Known(t.Context(), most)
		if err != nil || len(list) != want || list[0] != (KnownSession{"s1", "claude", "bob@example.com", "antigravity"}) {
			t.Errorf("at most %d: got %q, %v", most, list, err)
		}
	}
	if list, err := s.Sessions("another").Known(t.Context(), 10); err != nil || len(list) > 0 {
		t.Errorf("of another upstream: got %q, %v", list, err)
	}
	save("s1", "gemini", "bob@example.com", "gemini-cli")
	want("s1", "gemini", "bob@example.com", "gemini-cli")
	if err := s.Sessions("another").ForgetSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("s1", "gemini", "bob@example.com", "gemini-cli")
	if err := gravity.ForgetSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("s1", "gemini", "", "")
	save("s1", "gemini", "bob@example.com", "gemini-cli")
	now = now.Add(sessionTime)
	if list, err := gravity.Known(t.Context(), 10); err != nil || len(list) > 0 {
		t.Errorf("what has expired: got %q, %v", list, err)
	}
	want("s1", "gemini", "", "")
	save("s3", "gemini", "ada@example.com", "antigravity")
	var rows int
	if err := s.db.Read.QueryRow("SELECT count(*) FROM sessions").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v; what has expired should be gone", rows, err)
	}
}

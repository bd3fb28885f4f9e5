package audit

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"perigee"
)

// A memoryStore keeps entries, or fails.
type memoryStore struct {
	entries []perigee.AuditEntry
	err     error
}

func (s *memoryStore) SaveAudit(ctx context.Context, e perigee.AuditEntry) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if s.err == nil {
		s.entries = append(s.entries, e)
	}
	return s.err
}

func TestRecordWritesOneLineAndOneRow(t *testing.T) {
	var log bytes.Buffer
	store := &memoryStore{}
	l := New(Options{Store: store, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Actor: perigee.Actor{Kind: perigee.ActorOffline, From: "ada"}})
	ctx, cancel := context.WithCancel(perigee.WithActor(t.Context(),
		perigee.Actor{Kind: perigee.ActorToken, From: "192.0.2.7", Call: "c1"}))
	cancel() // the client has left
	if err := l.Record(ctx, perigee.AuditEntry{Action: perigee.AuditAccountUse, Object: "ada@example.com"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Record(t.Context(), perigee.AuditEntry{Action: perigee.AuditAccountExport, Result: "invalid"}); err != nil {
		t.Fatal(err)
	}
	if len(store.entries) != 2 || strings.Count(log.String(), "\n") != 2 {
		t.Fatalf("%d rows and the log %q", len(store.entries), log.String())
	}
	first, second := store.entries[0], store.entries[1]
	if first.Actor != "token" || first.From != "192.0.2.7" || first.Call != "c1" || first.Result != "ok" || first.ID == "" ||
		first.Time.IsZero() {
		t.Errorf("got %+v", first)
	}
	if second.Actor != "offline" || second.From != "ada" || second.Result != "invalid" || second.ID == first.ID {
		t.Errorf("got %+v", second)
	}
	want := `level=INFO msg="account use" action=account.use actor=token object=ada@example.com result=ok from=192.0.2.7`
	if !strings.Contains(log.String(), want) {
		t.Errorf("the log has no %s: %s", want, log.String())
	}
}

func TestRecordSaysThatTheStoreFails(t *testing.T) {
	var log bytes.Buffer
	broken := errors.New("disk on fire")
	l := New(Options{Store: &memoryStore{err: broken}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := l.Record(t.Context(), perigee.AuditEntry{Action: perigee.AuditAccountRemove,
		Object: "ada@example.com"}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{`msg="account removal"`, `level=WARN msg="audit entry not stored"`, "disk on fire"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s: %s", want, log.String())
		}
	}
}

func TestRefusalsAreBoundedAndCounted(t *testing.T) {
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	store := &memoryStore{}
	l := New(Options{Store: store, Now: func() time.Time { return now }})
	for range 1000 {
		l.Refused(t.Context(), perigee.AuditEntry{Object: "GET /v1/traces", Result: "unauthenticated"})
	}
	if len(store.entries) != refusedPerMinute {
		t.Fatalf("%d rows", len(store.entries))
	}
	now = now.Add(time.Minute)
	l.Refused(t.Context(), perigee.AuditEntry{Object: "GET /v1/traces", Detail: "key laptop", Result: "forbidden"})
	last := store.entries[len(store.entries)-1]
	if last.Action != perigee.AuditAdminRefused || last.Detail != "key laptop; 990 more before this one" {
		t.Errorf("got %+v", last)
	}
}

func TestCleanKeepsNamesAndNoSecrets(t *testing.T) {
	for range 1000 {
		random := make([]byte, 24)
		_, _ = rand.Read(random)
		for _, secret := range []string{base64.RawURLEncoding.EncodeToString(random), hex.EncodeToString(random), rand.Text()} {
			if got := clean("use " + secret); strings.Contains(got, secret) && strings.ContainsAny(secret, "0123456789") {
				t.Errorf("clean keeps %s", secret)
			}
		}
	}
	for text, want := range map[string]string{
		"ada@example.com, bob@example.com":                                   "ada@example.com, bob@example.com",
		"/home/Ada/Documents/2026/antigravity-accounts.json":                 "/home/Ada/Documents/2026/antigravity-accounts.json",
		"limit=20&model=gemini-2.5-*":                                        "limit=20&model=gemini-2.5-*",
		"/tmp/TestReloadsAreRecordedWithNamesOnly2741839302/001/config.yaml": "/tmp/TestReloadsAreRecordedWithNamesOnly2741839302/001/config.yaml",
		"1//0gAbCdEf12":                  "[redacted]",
		"refresh_token=abc&x=1":          "refresh_token=[redacted]&x=1",
		"Authorization: Bearer abcdefgh": "Authorization: [redacted] [redacted]",
		"a\x1b[31mb\nc\u202ed\xffe":      `a\x1b[31mb\nc\u202ed\xffe`,
	} {
		if got := clean(text); got != want {
			t.Errorf("clean(%q) is %q, want %q", text, got, want)
		}
	}
	if got := clean(strings.Repeat("ä", 5000)); len(got) > perigee.AuditMaxText {
		t.Errorf("%d bytes", len(got))
	}
}

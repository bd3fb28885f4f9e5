package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"perigee"
)

// signatureStore opens a store whose clock the test can set.
func signatureStore(t *testing.T, path string, now *time.Time) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: path, Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func mustFind(t *testing.T, s *Store, keys ...string) []perigee.Signature {
	t.Helper()
	found, err := s.FindSignatures(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(found, func(a, b perigee.Signature) int { return cmp.Compare(a.Key, b.Key) })
	return found
}

func TestSignaturesComeBackAsTheyWereSaved(t *testing.T) {
	now, path := noon, filepath.Join(t.TempDir(), "perigee.db")
	s := signatureStore(t, path, &now)
	a := perigee.Signature{Key: "c:1", Value: "seal-1", Seal: "gemini", Expires: noon.Add(time.Hour)}
	b := perigee.Signature{Key: "t:2", Seal: "claude", Expires: noon.Add(2 * time.Hour)}
	if err := s.SaveSignatures(t.Context(), []perigee.Signature{a, b}); err != nil {
		t.Fatal(err)
	}
	if got := mustFind(t, s, "t:2", "nobody", "c:1"); !reflect.DeepEqual(got, []perigee.Signature{a, b}) {
		t.Errorf("got %+v", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = signatureStore(t, path, &now)
	a.Value = "seal-3"
	if err := s.SaveSignatures(t.Context(), []perigee.Signature{a}); err != nil {
		t.Fatal(err)
	}
	if got := mustFind(t, s, "t:2", "c:1"); !reflect.DeepEqual(got, []perigee.Signature{a, b}) {
		t.Errorf("after opening it again and replacing one: got %+v", got)
	}
}

func TestSignaturesExpire(t *testing.T) {
	now := noon
	s := signatureStore(t, filepath.Join(t.TempDir(), "perigee.db"), &now)
	old := perigee.Signature{Key: "old", Expires: noon.Add(time.Minute)}
	if err := s.SaveSignatures(t.Context(), []perigee.Signature{old}); err != nil {
		t.Fatal(err)
	}
	now = old.Expires
	if got := mustFind(t, s, "old"); got != nil {
		t.Errorf("found %+v", got)
	}
	if err := s.SaveSignatures(t.Context(), []perigee.Signature{{Key: "new", Expires: now.Add(time.Minute)}}); err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := s.read.QueryRow("SELECT count(*) FROM signatures").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v; what has expired should be gone", rows, err)
	}
}

func TestManySignaturesAtOnce(t *testing.T) {
	now := noon
	s := signatureStore(t, filepath.Join(t.TempDir(), "perigee.db"), &now)
	var all []perigee.Signature
	var keys []string
	for i := range 2*keysAtOnce + 1 {
		all = append(all, perigee.Signature{Key: fmt.Sprintf("%05d", i), Value: "v", Expires: noon.Add(time.Hour)})
		keys = append(keys, all[i].Key)
	}
	if err := s.SaveSignatures(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if got := mustFind(t, s, keys...); len(got) != len(all) {
		t.Errorf("found %d of %d", len(got), len(all))
	}
	if got := mustFind(t, s); got != nil {
		t.Errorf("no keys found %v", got)
	}
}

func TestSignaturesAreKeptWholeOrNotAtAll(t *testing.T) {
	now := noon
	s := signatureStore(t, filepath.Join(t.TempDir(), "perigee.db"), &now)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.SaveSignatures(ctx, []perigee.Signature{{Key: "a", Expires: noon.Add(time.Hour)}}); err == nil {
		t.Error("a canceled save worked")
	}
	if got := mustFind(t, s, "a"); got != nil {
		t.Errorf("found %+v", got)
	}
	if err := s.SaveSignatures(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"perigee"
)

// TestSignatures is what every engine must do with signatures.
func TestSignatures(t *testing.T) {
	onNewerSchemas(t, func(t *testing.T, fresh fresh) {
		for name, test := range map[string]func(t *testing.T, options Options, now *time.Time){
			"they come back as they were saved": testSignaturesComeBack,
			"they expire":                       testSignaturesExpire,
			"many at once":                      testManySignatures,
			"they are kept whole or not at all": testSignaturesWhole,
			"the later of two counts":           testSignatureTwice,
			"keys that no text can be":          testStrangeSignatures,
		} {
			t.Run(name, func(t *testing.T) {
				now, options := noon, fresh(t)
				options.Now = func() time.Time { return now }
				test(t, options, &now)
			})
		}
	})
}

func testSignatureTwice(t *testing.T, options Options, _ *time.Time) {
	s := openWith(t, options)
	later := noon.Add(time.Hour)
	err := s.SaveSignatures(t.Context(), []perigee.Signature{{Key: "b", Value: "1", Expires: later}, {Key: "a", Expires: later}, {Key: "b", Value: "2", Expires: later}})
	if err != nil {
		t.Fatal(err)
	}
	if got := mustFind(t, s, "b"); len(got) != 1 || got[0].Value != "2" {
		t.Errorf("got %+v", got)
	}
}

func testStrangeSignatures(t *testing.T, options Options, _ *time.Time) {
	s := openWith(t, options)
	err := s.SaveSignatures(t.Context(), []perigee.Signature{{Key: "a\x00", Value: "\xff", Expires: noon.Add(time.Hour)}, {Key: "good", Expires: noon.Add(time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := mustFind(t, s, "b\x00", "c\xff", "good"); len(got) != 1 {
		t.Errorf("got %+v", got)
	}
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

func testSignaturesComeBack(t *testing.T, options Options, _ *time.Time) {
	s := openWith(t, options)
	a := perigee.Signature{Key: "c:1", Value: "seal-1", Kind: "gemini", Expires: noon.Add(time.Hour)}
	b := perigee.Signature{Key: "t:2", Kind: "claude", Expires: noon.Add(2 * time.Hour)}
	if err := s.SaveSignatures(t.Context(), []perigee.Signature{a, b}); err != nil {
		t.Fatal(err)
	}
	if got := mustFind(t, s, "t:2", "nobody", "c:1"); !reflect.DeepEqual(got, []perigee.Signature{a, b}) {
		t.Errorf("got %+v", got)
	}
	mustClose(t, s)
	s = openWith(t, options)
	a.Value = "seal-3"
	if err := s.SaveSignatures(t.Context(), []perigee.Signature{a}); err != nil {
		t.Fatal(err)
	}
	if got := mustFind(t, s, "t:2", "c:1"); !reflect.DeepEqual(got, []perigee.Signature{a, b}) {
		t.Errorf("after opening it again and replacing one: got %+v", got)
	}
}

func testSignaturesExpire(t *testing.T, options Options, now *time.Time) {
	s := openWith(t, options)
	old := perigee.Signature{Key: "old", Expires: noon.Add(time.Minute)}
	if err := s.SaveSignatures(t.Context(), []perigee.Signature{old}); err != nil {
		t.Fatal(err)
	}
	*now = old.Expires
	if got := mustFind(t, s, "old"); got != nil {
		t.Errorf("found %+v", got)
	}
	if err := s.SaveSignatures(t.Context(), []perigee.Signature{{Key: "new", Expires: now.Add(time.Minute)}}); err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := s.db.Read.QueryRow("SELECT count(*) FROM signatures").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v; what has expired should be gone", rows, err)
	}
}

func testManySignatures(t *testing.T, options Options, _ *time.Time) {
	s := openWith(t, options)
	var all []perigee.Signature
	var keys []string
	for i := range 2001 {
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

func testSignaturesWhole(t *testing.T, options Options, _ *time.Time) {
	s := openWith(t, options)
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

package sqlstore

import (
	"context"
	"reflect"
	"testing"
	"time"

	"perigee"
)

func keptResponse(id, key string) *perigee.StoredResponse {
	return &perigee.StoredResponse{
		ID: id, Key: key, Created: noon, Expires: noon.Add(30 * 24 * time.Hour),
		Input: []byte(`[{"type":"message","content":"später"}]`), Output: []byte(`[]`), Response: []byte(`{"id":"` + id + `"}`),
	}
}

// responseStore opens a store whose clock the test moves.
func responseStore(t *testing.T, fresh fresh) (*Store, *time.Time) {
	t.Helper()
	now, options := noon, fresh(t)
	options.Now = func() time.Time { return now }
	return openWith(t, options), &now
}

// TestResponses is what every engine must do with responses.
func TestResponses(t *testing.T) {
	onNewerSchemas(t, func(t *testing.T, fresh fresh) {
		for name, test := range map[string]func(*testing.T, *Store, *time.Time){
			"a response comes back as it was saved":   testResponseRoundTrip,
			"a later response replaces the earlier":   testLaterResponse,
			"what cannot be seen is not found":        testResponsesThatCannotBeSeen,
			"a deleted response is gone":              testDeletedResponse,
			"saving clears away the expired":          testSavingClearsAwayTheExpired,
			"an id that no text can be finds nothing": testStrangeResponse,
			"a conversation takes linear space":       testLinearSpace,
			"others stay when a response is deleted":  testDeletedMiddle,
			"keys share nothing":                      testKeysShareNothing,
			"whatever is saved comes back":            testStrangeTexts,
			"the oldest go beyond the limit":          testResponseLimit,
		} {
			t.Run(name, func(t *testing.T) {
				s, now := responseStore(t, fresh)
				test(t, s, now)
			})
		}
	})
}

func testStrangeResponse(t *testing.T, s *Store, _ *time.Time) {
	for _, id := range []string{"resp_\x00", "resp_\xff", ""} {
		if _, err := s.Response(t.Context(), "laptop", id); perigee.AsError(err).Class != perigee.ClassNotFound {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func mustKeep(t *testing.T, s *Store, r *perigee.StoredResponse) {
	t.Helper()
	if err := s.SaveResponse(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func testResponseRoundTrip(t *testing.T, s *Store, _ *time.Time) {
	want := keptResponse("resp_1", "laptop")
	mustKeep(t, s, want)
	got, err := s.Response(t.Context(), "laptop", "resp_1")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v (%v)\nwant %+v", got, err, want)
	}
}

func testLaterResponse(t *testing.T, s *Store, _ *time.Time) {
	mustKeep(t, s, keptResponse("resp_1", "laptop"))
	later := keptResponse("resp_1", "laptop")
	later.Response = []byte(`{"status":"completed"}`)
	mustKeep(t, s, later)
	got, err := s.Response(t.Context(), "laptop", "resp_1")
	if err != nil || string(got.Response) != `{"status":"completed"}` {
		t.Errorf("got %+v (%v)", got, err)
	}
}

func testResponsesThatCannotBeSeen(t *testing.T, s *Store, now *time.Time) {
	mustKeep(t, s, keptResponse("resp_1", "laptop"))
	mustKeep(t, s, keptResponse("resp_open", ""))
	missing := func(key, id string) {
		t.Helper()
		if _, err := s.Response(t.Context(), key, id); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassNotFound {
			t.Errorf("%s read %s: %v", key, id, err)
		}
		if _, err := s.ResponseSize(t.Context(), key, id); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassNotFound {
			t.Errorf("%s was told the size of %s: %v", key, id, err)
		}
		if err := s.DeleteResponse(t.Context(), key, id); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassNotFound {
			t.Errorf("%s deleted %s: %v", key, id, err)
		}
	}
	missing("desk", "resp_1")
	missing("", "resp_1")
	missing("laptop", "resp_open")
	missing("laptop", "resp_2")
	*now = noon.Add(30 * 24 * time.Hour)
	missing("laptop", "resp_1")
}

func testDeletedResponse(t *testing.T, s *Store, _ *time.Time) {
	mustKeep(t, s, keptResponse("resp_1", "laptop"))
	if err := s.DeleteResponse(t.Context(), "laptop", "resp_1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Response(t.Context(), "laptop", "resp_1"); perigee.AsError(err).Class != perigee.ClassNotFound {
		t.Errorf("it is still there: %v", err)
	}
}

func testSavingClearsAwayTheExpired(t *testing.T, s *Store, now *time.Time) {
	mustKeep(t, s, keptResponse("resp_old", "laptop"))
	*now = noon.Add(31 * 24 * time.Hour)
	fresh := keptResponse("resp_new", "laptop")
	fresh.Expires = now.Add(time.Hour)
	mustKeep(t, s, fresh)
	var rows int
	if err := s.db.Read.QueryRowContext(context.Background(), `SELECT count(*) FROM stored_responses`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows are left (%v), want the new one only", rows, err)
	}
}

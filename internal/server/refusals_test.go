package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"perigee"
)

// To be refused costs nothing, so a client that does not stop must not fill the database with it.
func TestRefusalsOnRecordAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time stands still, however long the requests take
		recorded, unrecorded := 0, 0
		s := New(Options{
			Refused: func(context.Context, string, perigee.Origin, string, *perigee.Error) { recorded++ },
			Unrecorded: func(dialect perigee.Dialect, class perigee.Class) {
				if unrecorded++; dialect != perigee.DialectOpenAIChat || class != perigee.ClassInvalid {
					t.Errorf("dialect %s, class %s", dialect, class)
				}
			},
		}, Settings{Loopback: true, MaxBody: 100})
		defer s.Close()
		for range 1000 {
			r := httptest.NewRequest(http.MethodPost, "http://localhost/v1/chat/completions", strings.NewReader("{"))
			s.ServeHTTP(httptest.NewRecorder(), r)
		}
		if recorded != 60 || unrecorded != 940 {
			t.Errorf("%d of 1000 were recorded, %d not", recorded, unrecorded)
		}
	})
}

// A request with a wrong key is no call, but a request for a model nonetheless.
func TestWrongKeysAreReported(t *testing.T) {
	var reported []string
	s := New(Options{
		Refused:    func(context.Context, string, perigee.Origin, string, *perigee.Error) { t.Error("recorded") },
		Unrecorded: func(d perigee.Dialect, c perigee.Class) { reported = append(reported, string(d)+" "+string(c)) },
	}, Settings{Loopback: true, MaxBody: 100, Keys: []Key{{Name: "laptop", Secret: perigee.NewSecret("good")}}})
	defer s.Close()
	for _, target := range []string{"POST /v1/messages", "POST /v1beta/models/x:generateContent", "GET /v1/messages", "GET /v1/models", "POST /nowhere"} {
		method, path, _ := strings.Cut(target, " ")
		r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader("{}"))
		r.Header.Set("Authorization", "Bearer wrong")
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	if want := []string{"anthropic unauthenticated", "gemini unauthenticated"}; !slices.Equal(reported, want) {
		t.Errorf("got %q, want %q", reported, want)
	}
}

func BenchmarkAdmit(b *testing.B) {
	for name, key := range map[string]Key{"no limit": {}, "rpm": {RPM: 1 << 30}} {
		b.Run(name, func(b *testing.B) {
			key.Name = "laptop"
			s := New(Options{}, Settings{Keys: []Key{key}})
			c := &call{Server: s, state: s.settings.Load(), r: httptest.NewRequest(http.MethodPost, "/", nil)}
			c.key = c.state.keys[0]
			b.ReportAllocs()
			for b.Loop() {
				if err := c.admit(); err != nil {
					b.Fatal(err)
				}
				c.places.release()
			}
		})
	}
}

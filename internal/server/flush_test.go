package server_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/route"
	"perigee/internal/server"
)

// writes keeps the pieces that are written to a client, each of which is flushed.
type writes struct {
	*httptest.ResponseRecorder
	pieces []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.pieces = append(w.pieces, string(p))
	return w.ResponseRecorder.Write(p)
}

// What a provider says before its first text is held back, and sent together with that: the client
// reads once.
func TestTheBeginningIsSentWithTheFirstText(t *testing.T) {
	upstream := script(func(_ context.Context, yield func(perigee.Event, error) bool) {
		_ = yield(begin, nil) && yield(perigee.Event{Kind: perigee.EventUsage, Usage: &perigee.Usage{Input: 3}}, nil) &&
			yield(perigee.Event{Kind: perigee.EventText, Text: "first"}, nil) &&
			yield(perigee.Event{Kind: perigee.EventText, Text: "second"}, nil) && yield(end, nil)
	})
	router, err := route.New(route.Options{Targets: []route.Target{{Name: "a", Upstream: upstream}}})
	if err != nil {
		t.Fatal(err)
	}
	api := server.New(server.Options{Upstream: router}, server.Settings{MaxBody: 1 << 20, Loopback: true})
	instructions := strings.Repeat("Be brief. ", 2000)
	for path, test := range map[string]struct{ body, first string }{
		"/v1/chat/completions": {`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`, `"role":"assistant"`},
		"/v1/messages":         {`{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, `message_start`},
		"/v1/responses":        {`{"model":"m","stream":true,"store":false,"instructions":"` + instructions + `","input":"hi"}`, `response.created`},
	} {
		w := &writes{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest("POST", "http://localhost"+path, strings.NewReader(test.body))
		api.ServeHTTP(w, r)
		if len(w.pieces) < 2 || !strings.Contains(w.pieces[0], test.first) || !strings.Contains(w.pieces[0], "first") ||
			strings.Contains(w.pieces[0], "second") {
			t.Errorf("%s: status %d, %d pieces: %.100q", path, w.Code, len(w.pieces), w.pieces)
		}
	}
}

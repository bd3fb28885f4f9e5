package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"perigee"
	"perigee/internal/server"
)

// largeText makes a body large enough for its memory to matter, see keepItems.
var largeText = strings.Repeat("x", 5<<20)

// A watchedStoreRig is looked at when a response is about to be stored.
type watchedStoreRig struct {
	storeRig
	look func(*perigee.StoredResponse)
}

func (s *watchedStoreRig) SaveResponse(ctx context.Context, r *perigee.StoredResponse) error {
	s.look(r)
	return s.storeRig.SaveResponse(ctx, r)
}

// The database copies what is stored, so the request is not in memory beside it.
func TestLargeRequestIsDroppedBeforeItIsStored(t *testing.T) {
	for _, stream := range []bool{false, true} {
		var asked *perigee.Request
		upstream := question(func(_ context.Context, req *perigee.Request, yield func(perigee.Event, error) bool) {
			asked = req
			_ = yield(begin, nil) && yield(word, nil) && yield(end, nil)
		})
		saved := 0
		store := &watchedStoreRig{look: func(r *perigee.StoredResponse) {
			saved++
			if asked.Body != nil {
				t.Errorf("stream %v: the body of %d bytes is still there", stream, len(asked.Body))
			}
			if !strings.Contains(string(r.Input), largeText) || !strings.Contains(string(r.Response), `"instructions":"Be brief."`) {
				t.Errorf("stream %v: stored were %d bytes of items and %s", stream, len(r.Input), r.Response)
			}
		}}
		d := newSocketRig(t, upstream, server.Settings{MaxBody: 8 << 20}, func(o *server.Options) { o.Responses = store })
		client := &http.Client{Transport: &http.Transport{DialContext: d.pipes.Dial, DisableKeepAlives: true}}
		body := fmt.Sprintf(`{"model":"m","stream":%v,"instructions":"Be brief.","input":"%s"}`, stream, largeText)
		resp, err := client.Post("http://localhost/v1/responses", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || saved != 1 || !strings.Contains(string(answer), `"instructions":"Be brief."`) {
			t.Errorf("stream %v: %d stored, %v, %s", stream, saved, err, answer)
		}
	}
}

// A socket remembers what could not be stored.
func TestSocketGoesOnFromALargeRequestThatCouldNotBeStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bird := &echoRig{}
		p := newSocketRig(t, bird, server.Settings{MaxBody: 8 << 20}, func(o *server.Options) { o.Responses = &fullStoreRig{} }).
			connect(t)
		p.say(`{"type":"response.create","model":"m","input":"` + largeText + `"}`)
		id, _ := json.Marshal(p.until("response.completed").Response.ID)
		p.say(`{"type":"response.create","model":"m","input":"two","previous_response_id":` + string(id) + `}`)
		p.until("response.completed")
		if got := talk(bird.asked()[1]); len(got) != 3 || got[0] != "user: "+largeText || got[2] != "user: two" {
			t.Errorf("the model was asked %d things", len(got))
		}
	})
}

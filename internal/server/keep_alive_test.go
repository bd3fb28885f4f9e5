package server_test

import (
	"context"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/route/record"
	"perigee/internal/server"
)

// A pondering upstream has said what it dropped, and does not answer for a while.
type pondering struct{ script }

func (p pondering) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	req.Log.BeginAttempt()
	req.Log.Note(perigee.Note{Action: perigee.NoteDropped, Subject: "seed"})
	return p.script.Stream(ctx, req)
}

// The head that a keep-alive sends has the notes that are known by then.
func TestKeepAliveSendsNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := pondering{func(ctx context.Context, yield func(perigee.Event, error) bool) {
			quietFor(ctx, 20*time.Second)
			if yield(begin, nil) && yield(frame, nil) {
				yield(end, nil)
			}
		}}
		for _, quiet := range []time.Duration{15 * time.Second, time.Minute} { // the head comes before the answer, and with it
			api := server.New(server.Options{Upstream: upstream}, server.Settings{MaxBody: 1 << 20, Loopback: true, KeepAlive: quiet})
			w := knock(api, "POST", "/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[]}`)
			if got := w.Header().Get("X-Perigee-Notes"); got != "dropped seed" {
				t.Errorf("keep-alive after %v: notes are %q", quiet, got)
			}
		}
	})
}

// How long a stream may be quiet is a setting, which holds for the streams that begin after it was
// made.
func TestKeepAliveFollowsTheSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := script(func(ctx context.Context, yield func(perigee.Event, error) bool) {
			if quietFor(ctx, 10*time.Second); yield(begin, nil) && yield(frame, nil) {
				yield(end, nil)
			}
		})
		api := server.New(server.Options{Upstream: upstream}, server.Settings{MaxBody: 1 << 20, Loopback: true})
		signs := func() int {
			w := knock(api, "POST", "/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[]}`)
			return strings.Count(w.Body.String(), "data: {}\r\n\r\n")
		}
		for _, c := range []struct {
			quiet time.Duration
			want  int
		}{{0, 0}, {3 * time.Second, 3}, {time.Second, 9}, {time.Minute, 0}} {
			api.Apply(server.Settings{MaxBody: 1 << 20, Loopback: true, KeepAlive: c.quiet})
			if got := signs(); got != c.want && got != c.want+1 { // the last one and the end of the silence may meet
				t.Errorf("quiet for %v: %d signs of life in 10 s, want %d", c.quiet, got, c.want)
			}
		}
	})
}

// The record has the status that the client got: a keep-alive sends the head of a stream that fails
// later.
func TestTheRecordHasTheStatusThatWasSent(t *testing.T) {
	for _, test := range []struct {
		quiet time.Duration
		want  int
	}{{15 * time.Second, 200}, {time.Minute, 503}} {
		synctest.Test(t, func(t *testing.T) {
			upstream := script(func(ctx context.Context, yield func(perigee.Event, error) bool) {
				quietFor(ctx, 20*time.Second)
				yield(perigee.Event{}, perigee.Errorf(perigee.ClassCapacity, "no capacity"))
			})
			status := 0
			recorder := record.New(upstream, record.Options{Store: forgetful{},
				Observe: func(c *perigee.Call) { status = c.ClientStatus }})
			api := server.New(server.Options{Upstream: recorder},
				server.Settings{MaxBody: 1 << 20, Loopback: true, KeepAlive: test.quiet})
			w := knock(api, "POST", "/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[]}`)
			if w.Code != test.want || status != test.want {
				t.Errorf("keep-alive after %v: the client got %d, recorded is %d, want %d", test.quiet, w.Code, status, test.want)
			}
			_ = recorder.Close(t.Context())
		})
	}
}

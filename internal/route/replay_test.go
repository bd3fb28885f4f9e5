package route

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"perigee"
)

// replayAt is a request that repeats a call at one upstream.
func replayAt(upstream, model string) *perigee.Request {
	req := request(model)
	req.Replay = perigee.Replay{Of: "c0", Upstream: upstream}
	return req
}

func TestReplayAtOneUpstream(t *testing.T) {
	down := perigee.Errorf(perigee.ClassUnavailable, "down")
	first, second := says("first"), says("second")
	r := router(t, Options{Targets: []Target{{"a", first}, {"b", second}, {"c", &source{err: down}}},
		Rules: []Rule{{Match: "m", To: []string{"a"}}}, Aliases: map[string]string{"alias": "m"}})
	for _, model := range []string{"m", "alias"} { // the rule does not count, the alias does
		if heard, err := askFor(r, replayAt("b", model)); err != nil || !strings.Contains(heard, "second") {
			t.Errorf("%s: %s, %v", model, heard, err)
		}
	}
	if !slices.Equal(second.asked, []string{"m", "m"}) || len(first.asked) != 0 {
		t.Errorf("asked %q and %q", first.asked, second.asked)
	}
	if _, err := askFor(r, replayAt("c", "m")); err == nil || len(first.asked) != 0 {
		t.Errorf("another upstream was asked: %q, %v", first.asked, err)
	}
	for name, err := range map[string]error{
		"stream": func() error { _, err := askFor(r, replayAt("x", "m")); return err }(),
		"count":  func() error { _, err := r.CountTokens(t.Context(), replayAt("x", "m")); return err }(),
		"embed": func() error {
			_, err := r.Embed(t.Context(), &perigee.EmbedRequest{Origin: replayAt("x", "m").Origin, Model: "m"})
			return err
		}(),
		"raw": r.SendRaw(t.Context(), &perigee.RawRequest{Origin: replayAt("x", "m").Origin}, nil),
	} {
		if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassInvalid || e.Error() != `there is no upstream "x"; the upstreams are a, b, c` {
			t.Errorf("%s at an upstream that there is not: %v", name, err)
		}
	}
}

// A rawSource answers every recorded request with its own bytes.
type rawSource struct{ source }

func (s *rawSource) SendRaw(_ context.Context, r *perigee.RawRequest, answer func(perigee.RawAnswer) error) error {
	return answer(perigee.RawAnswer{Status: 200, Body: strings.NewReader(string(r.Sent))})
}

func TestRawRequestsGoToTheUpstreamThatTheReplayNames(t *testing.T) {
	r := router(t, Options{Targets: []Target{{"a", says("x")}, {"b", perigee.Passthrough{Upstream: &rawSource{}}}}})
	got := ""
	err := r.SendRaw(t.Context(), &perigee.RawRequest{Origin: replayAt("b", "m").Origin, Sent: []byte("{}")}, func(a perigee.RawAnswer) error {
		raw, err := io.ReadAll(a.Body)
		got = string(raw)
		return err
	})
	if err != nil || got != "{}" {
		t.Errorf("%q, %v", got, err)
	}
	err = r.SendRaw(t.Context(), &perigee.RawRequest{Origin: replayAt("a", "m").Origin}, nil)
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassUnimplemented || !strings.Contains(e.Message, "upstream a ") {
		t.Errorf("an upstream that cannot: %v", err)
	}
}

// A request that continues a conversation at an upstream is for that one alone, whatever the rules
// are. Without that upstream, the conversation is lost.
func TestPinnedRequests(t *testing.T) {
	first, second := says("first"), says("second")
	r := router(t, Options{Targets: []Target{{"a", first}, {"b", second}}, Rules: []Rule{{Match: "*", To: []string{"a"}}}, Fallback: "f"})
	for _, model := range []string{"m", "b/m"} {
		pinned := request(model)
		pinned.Pinned = "b"
		if heard, err := askFor(r, pinned); err != nil || !strings.Contains(heard, "second") {
			t.Errorf("%s: %s, %v", model, heard, err)
		}
	}
	first.models, second.models = []string{"only-first"}, []string{"m"}
	if _, err := r.Models(t.Context()); err != nil {
		t.Fatal(err)
	}
	foreign := request("only-first")
	foreign.Pinned = "b"
	if _, err := askFor(r, foreign); err == nil || !strings.Contains(err.Error(), "only another one lists the model only-first") {
		t.Errorf("a model of another upstream: %v", err)
	}
	lost, other := request("m"), request("a/m")
	lost.Pinned, other.Pinned = "gone", "b"
	var err error
	for _, req := range []*perigee.Request{lost, other} {
		_, err = askFor(r, req)
		_, uncounted := r.CountTokens(t.Context(), req)
		for _, err := range []error{err, uncounted} {
			if fault, ok := errors.AsType[*perigee.Fault](err); !ok || fault.Code != "previous_response_not_found" {
				t.Errorf("%s pinned to %s: %v", req.Model, req.Pinned, err)
			}
		}
	}
	if r.Forwards(t.Context(), lost) || r.Forwards(t.Context(), other) || len(first.asked) != 0 {
		t.Errorf("another upstream was asked: %q", first.asked)
	}
	err = r.CallResponse(t.Context(), &perigee.ResponseCall{Upstream: "gone"}, nil)
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassNotFound {
		t.Errorf("a response of an upstream that there is not: %v", err)
	}
	err = r.CallResponse(t.Context(), &perigee.ResponseCall{Upstream: "a"}, nil)
	if e := perigee.AsError(err); e == nil || e.Class != perigee.ClassUnimplemented {
		t.Errorf("a response of an upstream that stores none: %v", err)
	}
}

package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"perigee"
	"perigee/internal/server"
)

// bubble runs a test with sockets in a time of its own.
func bubble(name string, t *testing.T, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// What comes over a socket is what comes over HTTP, event by event.
func TestSocketSpeaksTheEventsOfTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSocketRig(t, &echoRig{}, server.Settings{}, func(o *server.Options) { o.NewID = func() string { return "1" } })
		p := d.connect(t)
		p.say(`{"type":"response.create","model":"m","store":false,"input":"hi"}`)
		var messages []string
		for !strings.Contains(strings.Join(messages, ""), "response.completed") {
			kind, data, err := p.conn.Read(t.Context())
			if err != nil || kind != websocket.MessageText {
				t.Fatal(kind, err)
			}
			messages = append(messages, string(data))
		}
		transport := &http.Transport{DialContext: d.pipes.Dial, DisableKeepAlives: true}
		resp, err := (&http.Client{Transport: transport}).Post("http://localhost/v1/responses", "application/json",
			strings.NewReader(`{"model":"m","store":false,"input":"hi","stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		var events []string
		for line := range strings.Lines(string(body)) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				events = append(events, strings.TrimSuffix(data, "\n"))
			}
		}
		if len(events) < 5 || !slices.Equal(messages, events) {
			t.Errorf("over the socket\n%s\nover HTTP\n%s", strings.Join(messages, "\n"), strings.Join(events, "\n"))
		}
	})
}

func TestSocketGoesOnFromWhatIsNotStored(t *testing.T) {
	want := []string{"user: one", "model: you said one", "user: two", "model: you said two", "user: three"}
	for name, store := range map[string]perigee.ResponseStore{"nothing is stored": nil, "store": &storeRig{}} {
		for _, stored := range []bool{true, false} {
			bubble(fmt.Sprint(name, stored), t, func(t *testing.T) {
				bird := &echoRig{}
				p := newSocketRig(t, bird, server.Settings{}, func(o *server.Options) { o.Responses = store }).connect(t)
				previous := "null"
				for _, said := range []string{"one", "two", "three"} {
					p.say(fmt.Sprintf(`{"type":"response.create","model":"m","store":%v,"input":"%s","previous_response_id":%s}`, stored,
						said, previous))
					done := p.until("response.completed")
					if done.text() != "you said "+said {
						t.Errorf("heard %q", done.text())
					}
					previous = `"` + done.Response.ID + `"`
				}
				if got := talk(bird.asked()[2]); !slices.Equal(got, want) {
					t.Errorf("the model was asked %q, want %q", got, want)
				}
			})
		}
	}
}

// Answers that a socket keeps are its own, and are dropped with it. An error leaves the socket
// open, and what it keeps.
func TestSocketTellsWhatItDoesNotRemember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSocketRig(t, &echoRig{}, server.Settings{}, nil)
		p, other := d.connect(t), d.connect(t)
		p.say(`{"type":"response.create","model":"m","store":false,"input":"one"}`)
		first := p.until("response.completed").Response.ID
		onward := `{"type":"response.create","model":"m","store":false,"input":"two","previous_response_id":"` + first + `"}`
		other.say(onward)
		e := other.hear()
		if e.Type != "error" || e.Status != http.StatusBadRequest || e.Error.Code != "previous_response_not_found" ||
			e.Error.Type != "invalid_request_error" || e.Error.Param != "previous_response_id" ||
			!strings.Contains(e.Error.Message, first) {
			t.Errorf("heard %+v", e)
		}
		other.say(`{"type":"response.create","model":"m","store":false,"input":"all of it"}`)
		other.until("response.completed")
		p.say(`{"type":"response.create","model":"missing","store":false,"input":"two","previous_response_id":"` + first + `"}`)
		if e := p.hear(); e.Status != http.StatusNotFound {
			t.Errorf("heard %+v", e)
		}
		p.say(onward)
		if got := p.until("response.completed").text(); got != "you said two" {
			t.Errorf("after an error heard %q", got)
		}
		p.say(onward) // from one that has been gone on from
		if e := p.hear(); e.Error.Code != "previous_response_not_found" {
			t.Errorf("heard %+v", e)
		}
	})
}

func TestWarmUpAsksNobody(t *testing.T) {
	for _, stored := range []bool{true, false} {
		bubble(fmt.Sprint(stored), t, func(t *testing.T) {
			bird := &echoRig{}
			p := newSocketRig(t, bird, server.Settings{}, func(o *server.Options) { o.Responses = &storeRig{} }).connect(t)
			p.say(fmt.Sprintf(`{"type":"response.create","generate":false,"model":"m","store":%v,"instructions":"Be brief.","input":[{"role":"user","content":"one"}]}`, stored))
			for _, want := range []string{"response.created", "response.in_progress", "response.completed"} {
				if e := p.hear(); e.Type != want || len(e.Response.Output) != 0 {
					t.Fatalf("heard %+v, want %s", e, want)
				}
			}
			if asked := bird.asked(); len(asked) != 0 {
				t.Fatalf("the model was asked %q", talk(asked[0]))
			}
			p.say(`{"type":"response.create","model":"m","store":false,"input":"two","previous_response_id":"resp_call-0002"}`)
			p.until("response.completed")
			if got := talk(bird.asked()[0]); !slices.Equal(got, []string{"user: one", "user: two"}) {
				t.Errorf("the model was asked %q", got)
			}
		})
	}
}

func TestStreamsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bird := &echoRig{wait: slowly}
		p := newSocketRig(t, bird, server.Settings{}, nil).connect(t)
		start := time.Now()
		for _, r := range []string{`"input":"1"`, `"input":"2"`, `"stream_id":"a","input":"3"`, `"input":"4","stream_id":"a"`,
			`"stream_id":"b.c-d_E","input":"5"`} {
			p.say(`{"type":"response.create","model":"m","store":false,` + r + `}`)
		}
		var got []string
		for len(got) < 5 {
			if e := p.hear(); e.Type == "response.completed" {
				got = append(got, fmt.Sprintf("%s%s@%s", e.stream(), e.text(), time.Since(start)))
			}
		}
		slices.Sort(got)
		want := []string{"ayou said 3@1m0s", "ayou said 4@2m0s", "b.c-d_Eyou said 5@1m0s", "you said 1@1m0s", "you said 2@2m0s"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestStreamsGoOnFromEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bird := &echoRig{}
		p := newSocketRig(t, bird, server.Settings{}, nil).connect(t)
		p.say(`{"type":"response.create","stream_id":"main","model":"m","store":false,"input":"one"}`)
		first := p.until("response.completed").Response.ID
		for _, stream := range []string{"critic", "main"} {
			p.say(`{"type":"response.create","stream_id":"` + stream +
				`","model":"m","store":false,"input":"two","previous_response_id":"` + first + `"}`)
			for e := p.hear(); e.Type != "response.completed"; e = p.hear() {
				if e.stream() != stream {
					t.Fatalf("heard %+v", e)
				}
			}
		}
		if got := talk(bird.asked()[2]); !slices.Equal(got, []string{"user: one", "model: you said one", "user: two"}) {
			t.Errorf("the model was asked %q", got)
		}
	})
}

func TestSocketBoundsWhatItTakesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bird := &echoRig{wait: slowly}
		p := newSocketRig(t, bird, server.Settings{}, nil).connect(t)
		for i := range 32 {
			p.say(fmt.Sprintf(`{"type":"response.create","stream_id":"s%d","model":"m","store":false,"input":"hi"}`, i))
		}
		go func() { // the pipe has no room for what is not heard
			p.say(`{"type":"response.create","stream_id":"s32","model":"m","store":false,"input":"hi"}`)
			for range 17 {
				p.say(`{"type":"response.create","stream_id":"s0","model":"m","store":false,"input":"hi"}`)
			}
		}()
		refused := map[string]int{}
		for refused["invalid_request_error websocket_stream_limit_reached s32"] == 0 ||
			refused["rate_limit_error rate_limit_exceeded s0"] == 0 {
			if e := p.hear(); e.Type == "error" {
				refused[e.Error.Type+" "+e.Error.Code+" "+e.stream()]++
			}
		}
		synctest.Wait() // until all that may begin have begun
		if n := len(bird.asked()); n != 16 {
			t.Errorf("%d answers are being made at once", n)
		}
	})
}

func TestSocketSaysWhatItDoesNotUnderstand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSocketRig(t, &echoRig{}, server.Settings{Strict: true}, nil).connect(t)
		for _, test := range []struct {
			message, message2, code, stream string
			status                          int
		}{
			{`{"type":"response.steer","stream_id":"a"}`, "perigee understands response.create", "invalid", "a", 400},
			{`{"model":"m","input":"hi"}`, `messages of type ""`, "invalid", "", 400},
			{`{"type":7}`, "type: want a string", "invalid", "", 400},
			{`{"type":"response.create"`, "invalid message: ", "invalid", "", 400},
			{`{"type":"response.create","type":"response.create"}`, "invalid message: ", "invalid", "", 400},
			{`["response.create"]`, "a message is an object", "invalid", "", 400},
			{`{"type":"response.create","stream_id":"","input":"hi"}`, "stream_id is not", "invalid_stream_id", "", 400},
			{`{"type":"response.create","stream_id":"` + strings.Repeat("a", 257) + `","input":"hi"}`, "stream_id is not", "invalid_stream_id", "", 400},
			{`{"type":"response.create","stream_id":"a b","input":"hi"}`, "stream_id is not", "invalid_stream_id", "", 400},
			{`{"type":"response.create","stream_id":"a","model":"m"}`, "nothing is asked", "invalid", "a", 400},
			{`{"type":"response.create","model":"m","input":7}`, "want an array, found a number", "invalid", "", 400},
			{`{"type":"response.create","model":"m","input":"hi","background":true,"store":false}`, "background", "invalid", "", 400},
			{`{"type":"response.create","model":"m","input":"hi","stream":false,"store":false}`, "stream", "invalid", "", 400},
			{`{"type":"response.create","model":"missing","input":"hi","store":false,"stream_id":"a"}`, "no such model", "not_found",
				"a", 404},
		} {
			p.say(test.message)
			e := p.hear()
			if e.Type != "error" || e.Status != test.status || e.Error.Code != test.code || e.stream() != test.stream ||
				!strings.Contains(e.Error.Message, test.message2) {
				t.Errorf("%s\nheard %+v", test.message, e)
			}
		}
		if err := p.conn.Write(t.Context(), websocket.MessageBinary, []byte(`{"type":"response.create"}`)); err != nil {
			t.Fatal(err)
		}
		if e := p.hear(); e.Status != 400 || !strings.Contains(e.Error.Message, "text") {
			t.Errorf("heard %+v", e)
		}
		p.say(`{"stream":true,"background":false,"input":"hi","store":false,"model":"m" , "type":"response.create"}`)
		p.until("response.completed")
	})
}

// An error comes with what would have been its headers.
func TestSocketErrorsComeWithHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSocketRig(t, &echoRig{}, server.Settings{}, nil).connect(t)
		p.say(`{"type":"response.create","model":"missing","input":"hi","store":false}`)
		e := p.hear()
		want := map[string]string{"x-perigee-call": "call-0002", "x-perigee-class": "not_found", "x-perigee-upstream": "echo"}
		for name, value := range want {
			if e.Headers[name] != value {
				t.Errorf("%s is %q, want %q", name, e.Headers[name], value)
			}
		}
	})
}

// An answer that breaks off ends with its own failure, and is not gone on from.
func TestAnswerThatBreaksOffOnASocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := script(func(_ context.Context, yield func(perigee.Event, error) bool) {
			if yield(begin, nil) && yield(word, nil) {
				yield(perigee.Event{}, perigee.Errorf(perigee.ClassUnavailable, "the provider hung up"))
			}
		})
		p := newSocketRig(t, fails, server.Settings{}, nil).connect(t)
		p.say(`{"type":"response.create","model":"m","store":false,"stream_id":"a","input":"hi"}`)
		p.until("response.output_text.delta")
		if e := p.hear(); e.Type != "error" || e.Status != 0 || e.stream() != "a" {
			t.Errorf("heard %+v", e)
		}
		failed := p.until("response.failed")
		if !strings.Contains(failed.Response.Error.Message, "hung up") || failed.stream() != "a" {
			t.Errorf("heard %+v", failed)
		}
		p.say(`{"type":"response.create","model":"m","store":false,"input":"hi","previous_response_id":"` + failed.Response.ID + `"}`)
		if e := p.hear(); e.Error.Code != "previous_response_not_found" {
			t.Errorf("heard %+v", e)
		}
	})
}

func TestPanicBehindASocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		early := true
		broken := script(func(_ context.Context, yield func(perigee.Event, error) bool) {
			if early {
				panic("early")
			}
			yield(begin, nil)
			panic("late")
		})
		p := newSocketRig(t, broken, server.Settings{}, nil).connect(t)
		create := `{"type":"response.create","model":"m","store":false,"input":"hi"}`
		p.say(create)
		if e := p.hear(); e.Status != http.StatusInternalServerError || !strings.Contains(e.Error.Message, "call-0002") {
			t.Errorf("heard %+v", e)
		}
		early = false
		p.say(create)
		p.until("response.in_progress")
		if code := p.closed(); code != websocket.StatusInternalError {
			t.Errorf("closed with %v", code)
		}
	})
}

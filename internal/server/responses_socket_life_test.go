package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"perigee"
	"perigee/internal/server"
)

const hello = `{"type":"response.create","model":"m","store":false,"input":"hi"}`

// A client that leaves, in a bubble.
func TestClientThatLeavesEndsItsAnswers(t *testing.T) {
	for name, leave := range map[string]func(p *peer){
		"with a goodbye": func(p *peer) { _ = p.conn.Close(websocket.StatusNormalClosure, "") },
		"without":        func(p *peer) { _ = p.conn.CloseNow() },
	} {
		bubble(name, t, func(t *testing.T) {
			ended := make(chan error, 1)
			bird := &echoRig{wait: func(ctx context.Context, _ string) error {
				<-ctx.Done()
				ended <- ctx.Err()
				return ctx.Err()
			}}
			p := newSocketRig(t, bird, server.Settings{}, nil).connect(t)
			p.say(hello)
			p.say(hello) // waits, and is never begun
			p.until("response.in_progress")
			leave(p)
			if err := <-ended; err != context.Canceled {
				t.Errorf("the answer was ended with %v", err)
			}
			synctest.Wait()
			if n := len(bird.asked()); n != 1 {
				t.Errorf("%d answers were begun", n)
			}
		})
	}
}

// A quiet socket gets pings. A client that does not answer them is not disconnected.
func TestQuietSocketIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pings []time.Duration
		start := time.Now()
		d := newSocketRig(t, &echoRig{wait: slowly}, server.Settings{}, nil)
		p, _, err := d.dial(t, func(o *websocket.DialOptions) {
			o.OnPingReceived = func(context.Context, []byte) bool { pings = append(pings, time.Since(start)); return false }
		})
		if err != nil {
			t.Fatal(err)
		}
		p.say(hello)
		p.until("response.completed")
		if len(pings) < 3 || pings[0] != 15*time.Second || pings[2] != 45*time.Second {
			t.Errorf("pings at %v", pings)
		}
		quiet := make(chan struct{})
		go func() {
			defer close(quiet)
			_, _, _ = p.conn.Read(context.Background()) // answers no pings either, but receives them
		}()
		quietFor(t.Context(), 10*time.Minute)
		_ = p.conn.CloseNow()
		<-quiet
		if n := len(pings); n < 40 {
			t.Errorf("%d pings after ten minutes", n)
		}
	})
}

// An hour passes in a bubble.
func TestSocketEndsAfterAnHour(t *testing.T) {
	bubble("with nothing to do", t, func(t *testing.T) {
		p := newSocketRig(t, &echoRig{}, server.Settings{}, nil).connect(t)
		start := time.Now()
		e := p.hear()
		if e.Status != http.StatusBadRequest || e.Error.Code != "websocket_connection_limit_reached" || time.Since(start) != time.Hour {
			t.Errorf("heard %+v after %v", e, time.Since(start))
		}
		if code := p.closed(); code != websocket.StatusNormalClosure {
			t.Errorf("closed with %v", code)
		}
	})
	bubble("after the answer", t, func(t *testing.T) {
		p := newSocketRig(t, &echoRig{wait: slowly}, server.Settings{}, nil).connect(t)
		go func() {
			quietFor(t.Context(), time.Hour-30*time.Second)
			p.say(hello)
			p.say(hello)
		}()
		p.until("response.in_progress")
		if e := p.hear(); e.Error.Code != "websocket_connection_limit_reached" { // the second one
			t.Errorf("heard %+v", e)
		}
		p.until("response.completed")
		if e := p.hear(); e.Error.Code != "websocket_connection_limit_reached" {
			t.Errorf("heard %+v", e)
		}
		p.closed()
	})
}

// A client that does not read what it is sent holds up the end by seconds only.
func TestStuckClientDoesNotHoldUpTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSocketRig(t, &echoRig{}, server.Settings{}, nil)
		d.connect(t).say(hello) // and its events are not read
		synctest.Wait()
		start := time.Now()
		d.stop(server.ErrShutdown)
		d.api.Close()
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}

// One key, or one address, cannot open sockets without end.
func TestSocketsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := []server.Key{{Name: "a", Secret: perigee.NewSecret("secret-a")}, {Name: "b", Secret: perigee.NewSecret("secret-b")}}
		d := newSocketRig(t, &echoRig{}, server.Settings{Keys: keys}, nil)
		open := func(secret string) (*peer, *http.Response) {
			p, resp, _ := d.dial(t, func(o *websocket.DialOptions) { o.HTTPHeader.Set("X-Api-Key", secret) })
			return p, resp
		}
		first, _ := open("secret-a")
		for range 255 {
			if _, resp := open("secret-a"); resp.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("got %d", resp.StatusCode)
			}
		}
		if _, resp := open("secret-a"); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
			t.Errorf("the 257th got %d %v", resp.StatusCode, resp.Header)
		}
		if _, resp := open("secret-b"); resp.StatusCode != http.StatusSwitchingProtocols {
			t.Errorf("the other key got %d", resp.StatusCode)
		}
		_ = first.conn.CloseNow()
		synctest.Wait()
		if _, resp := open("secret-a"); resp.StatusCode != http.StatusSwitchingProtocols {
			t.Errorf("after one was closed: %d", resp.StatusCode)
		}
	})
}

func TestDrainLetsAnswersOnSocketsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSocketRig(t, &echoRig{wait: slowly}, server.Settings{}, nil)
		idle, busy := d.connect(t), d.connect(t)
		busy.say(hello)
		busy.say(hello)
		busy.until("response.in_progress")
		start := time.Now()
		drained := make(chan error, 1)
		go func() { drained <- d.api.Drain(t.Context()) }()
		if code := idle.closed(); code != websocket.StatusGoingAway || time.Since(start) != 0 {
			t.Errorf("the idle one closed with %v after %v", code, time.Since(start))
		}
		if e := busy.hear(); e.Status != http.StatusServiceUnavailable { // what was waiting
			t.Errorf("heard %+v", e)
		}
		busy.say(hello)
		if e := busy.hear(); e.Status != http.StatusServiceUnavailable {
			t.Errorf("heard %+v", e)
		}
		if got := busy.until("response.completed").text(); got != "you said hi" || time.Since(start) != time.Minute {
			t.Errorf("heard %q after %v", got, time.Since(start))
		}
		if code := busy.closed(); code != websocket.StatusGoingAway {
			t.Errorf("the busy one closed with %v", code)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if _, resp, err := d.dial(t, nil); err == nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("another one was opened (%v)", err)
		}
	})
}

func TestSocketIsCutWhenDrainingTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSocketRig(t, &echoRig{wait: slowly}, server.Settings{}, nil)
		p := d.connect(t)
		p.say(hello)
		p.until("response.in_progress")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := d.api.Drain(ctx); err != context.DeadlineExceeded {
			t.Errorf("drained: %v", err)
		}
		d.stop(server.ErrShutdown)
		if e := p.hear(); e.Type != "error" {
			t.Errorf("heard %+v", e)
		}
		if e := p.until("response.failed"); !strings.Contains(e.Response.Error.Message, "shutting down") {
			t.Errorf("heard %+v", e)
		}
		if code := p.closed(); code != websocket.StatusGoingAway {
			t.Errorf("closed with %v", code)
		}
	})
}

// A client that does not read, and so never says goodbye, does not hold the daemon up.
func TestSocketThatIsNotReadDoesNotHoldUpTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSocketRig(t, &echoRig{}, server.Settings{}, nil)
		d.connect(t)
		synctest.Wait()
		start := time.Now()
		if err := d.api.Drain(t.Context()); err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("took %v (%v)", time.Since(start), err)
		}
	})
}

func TestClientThatDoesNotReadItsAnswerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		endless := script(func(ctx context.Context, yield func(perigee.Event, error) bool) {
			for yield(word, nil) && ctx.Err() == nil { // the pipe has no room at all
			}
			ended <- time.Now()
		})
		// The bubble's time stands still while a keep-alive waits for the writer's lock.
		p := newSocketRig(t, endless, server.Settings{KeepAlive: time.Hour}, nil).connect(t)
		start := time.Now()
		p.say(hello)
		if took := (<-ended).Sub(start); took < time.Minute || took > 3*time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

func TestMessageThatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSocketRig(t, &echoRig{}, server.Settings{MaxBody: 100_000}, nil)
		p := d.connect(t)
		long := func(n int) string {
			return strings.Replace(hello, "hi", strings.Repeat("x", n-len(hello)+2), 1)
		}
		p.say(long(100_000))
		p.until("response.completed")
		d.api.Apply(server.Settings{MaxBody: 50_000, Loopback: true}) // holds from now on
		go func() { _ = p.conn.Write(context.Background(), websocket.MessageText, []byte(long(50_001))) }()
		if e := p.hear(); e.Status != http.StatusRequestEntityTooLarge || !strings.Contains(e.Error.Message, "50000") {
			t.Errorf("heard %+v", e)
		}
		if code := p.closed(); code != websocket.StatusMessageTooBig {
			t.Errorf("closed with %v", code)
		}
	})
}

// A message that never ends is not waited for.
func TestMessageThatDoesNotArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSocketRig(t, &echoRig{}, server.Settings{}, nil).connect(t)
		w, err := p.conn.Writer(t.Context(), websocket.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(`{"input":"` + strings.Repeat("x", 8<<10))); err != nil { // more than waits for company
			t.Fatal(err)
		}
		start := time.Now()
		p.closed()
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("cut after %v", took)
		}
	})
}

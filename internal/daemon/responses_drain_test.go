package daemon_test

import (
	"context"
	"testing"

	"github.com/coder/websocket"

	"perigee"
)

func TestStopLetsAnswersOnSocketsFinish(t *testing.T) {
	t.Parallel()
	stage := newStage(t)
	g := start(t, stage.config(""), nil)
	idle, busy := openSocket(t, g, ""), openSocket(t, g, "")
	say(t, busy, askOverSocket)
	hear(t, busy, "response.output_text.delta")
	closed := make(chan error, 1)
	go func() {
		_, _, err := idle.Read(context.Background())
		closed <- err
	}()
	stopped := make(chan struct{})
	go func() {
		g.Daemon.Stop(context.Background())
		close(stopped)
	}()
	if code := websocket.CloseStatus(wait(t, closed, "a goodbye")); code != websocket.StatusGoingAway {
		t.Errorf("the idle one closed with %v", code)
	}
	close(stage.goOn)
	hear(t, busy, "response.completed")
	if _, _, err := busy.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the busy one closed with %v", err)
	}
	wait(t, stopped, "the daemon to stop")
	calls, err := recorded(t.Context(), g.cfg.DataDir)
	if err != nil || len(calls) != 1 || calls[0].Outcome != perigee.OutcomeDone {
		t.Errorf("recorded %+v (%v)", calls, err)
	}
}

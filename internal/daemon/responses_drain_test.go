package daemon_test

import (
	"context"
	"testing"

	"github.com/coder/websocket"

	"perigee"
	"perigee/internal/perigeetest/await"
)

func TestStopLetsAnswersOnSocketsFinish(t *testing.T) {
	t.Parallel()
	stage := newStage(t)
	g := start(t, stage.config(""), nil)
	idle, busy := openSocket(t, g, ""), openSocket(t, g, "")
	say(t, busy, askOverSocket)
	hear(t, busy, "response.output_text.delta")
	closed := closing(idle)
	stopped := stopping(context.Background(), g)
	if code := websocket.CloseStatus(await.Receive(t, closed, "a goodbye")); code != websocket.StatusGoingAway {
		t.Errorf("the idle one closed with %v", code)
	}
	close(stage.goOn)
	hear(t, busy, "response.completed")
	if _, _, err := busy.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the busy one closed with %v", err)
	}
	await.Receive(t, stopped, "the daemon to stop")
	g.ended(t, perigee.OutcomeDone)
}

package limittests

import (
	"context"
	"testing"

	"github.com/coder/websocket"

	"perigee"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
)

func TestStopLetsAnswersOnSocketsFinish(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config(""), nil)
	idle, busy := openSocket(t, g, ""), openSocket(t, g, "")
	say(t, busy, askOverSocket)
	hear(t, busy, "response.output_text.delta")
	closed := closing(idle)
	stopped := daemontest.Stopping(context.Background(), g)
	if code := websocket.CloseStatus(await.Receive(t, closed, "a goodbye")); code != websocket.StatusGoingAway {
		t.Errorf("the idle one closed with %v", code)
	}
	close(stage.GoOn)
	hear(t, busy, "response.completed")
	if _, _, err := busy.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the busy one closed with %v", err)
	}
	await.Receive(t, stopped, "the daemon to stop")
	g.Ended(t, perigee.OutcomeDone)
}

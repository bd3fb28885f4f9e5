package limittests

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
)

// openSocket connects as a client of the Responses API does that would rather have a socket.
func openSocket(t *testing.T, g *daemontest.Gateway, key string) *websocket.Conn {
	t.Helper()
	opts := &websocket.DialOptions{HTTPHeader: http.Header{"User-Agent": {"codex_exec/1.2"}}, HTTPClient: daemontest.Client}
	if key != "" {
		opts.HTTPHeader.Set("Authorization", "Bearer "+key)
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, g.URL()+"/v1/responses", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

// say sends a message.
func say(t *testing.T, conn *websocket.Conn, message string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	if err := conn.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
		t.Fatal(err)
	}
}

// hear reads messages until one of a type, and returns the response in it.
func hear(t *testing.T, conn *websocket.Conn, kind string) (id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			t.Fatalf("waited in vain for %s: %v", kind, err)
		}
		var event struct {
			Type     string
			Response struct{ ID string }
		}
		if err := json.Unmarshal(data, &event); err != nil {
			t.Fatal(err)
		}
		if event.Type == kind {
			return event.Response.ID
		}
		if event.Type == "error" {
			t.Fatalf("waited in vain for %s: %s", kind, data)
		}
	}
}

// closing reads from a socket that has nothing more to say, until it is closed.
func closing(conn *websocket.Conn) <-chan error {
	closed := make(chan error, 1)
	go func() {
		_, _, err := conn.Read(context.Background())
		closed <- err
	}()
	return closed
}

const askOverSocket = `{"type":"response.create","model":"gemini-2.5-flash","store":false,"stream":false,"input":"Hi"}`

// Each answer over a socket is a call in the record, with an id that the client has in its
// response.
func TestCallsOverASocketAreRecorded(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	g := daemontest.Start(t, stage.Config("keys: [{name: laptop, secret: hush-hush}]\n"), func(o *daemon.Options) { o.NewID = (&perigeetest.IDs{}).New })
	conn := openSocket(t, g, "hush-hush")
	var ids []string
	for range 2 {
		say(t, conn, askOverSocket)
		ids = append(ids, strings.TrimPrefix(hear(t, conn, "response.completed"), "resp_"))
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
	calls, err := g.Stop(t.Context())
	if err != nil || len(calls) != 2 {
		t.Fatalf("recorded %+v (%v)", calls, err)
	}
	slices.SortFunc(calls, func(a, b perigee.Call) int { return strings.Compare(a.ID, b.ID) })
	for i, c := range calls {
		if c.ID != ids[i] || c.Dialect != perigee.DialectOpenAIResponses || c.Outcome != perigee.OutcomeDone || c.Upstream != "studio" || !c.Stream ||
			c.Client.Key != "laptop" || c.Client.Name != "codex_exec" || c.Usage.Output != 3 || !strings.Contains(strings.Join(c.Notes, ";"), "dropped stream") {
			t.Errorf("recorded %+v for %s", c, ids[i])
		}
	}
}

func TestSocketThatIsClosedEndsTheCallUpstream(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config(""), nil)
	conn := openSocket(t, g, "")
	say(t, conn, askOverSocket)
	hear(t, conn, "response.output_text.delta")
	_ = conn.CloseNow()
	await.Receive(t, stage.Gone, "the provider to notice")
	g.Ended(t, perigee.OutcomeCanceled)
}

// A daemon that ends does not wait for sockets that nothing is asked over, and tells their clients.
func TestStopClosesSockets(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config(""), nil)
	conn := openSocket(t, g, "")
	closed := closing(conn)
	stopped := daemontest.Stopping(context.Background(), g)
	if code := websocket.CloseStatus(await.Receive(t, closed, "a goodbye")); code != websocket.StatusGoingAway {
		t.Errorf("closed with %v", code)
	}
	await.Receive(t, stopped, "the daemon to stop")
}

func TestStopCutsOffAnswersOnSocketsThatDoNotFinish(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config(""), nil)
	conn := openSocket(t, g, "")
	say(t, conn, askOverSocket)
	hear(t, conn, "response.output_text.delta")
	now, cancel := context.WithCancel(context.Background())
	cancel()
	stopped := daemontest.Stopping(now, g)
	if _, data, err := conn.Read(t.Context()); err != nil || !strings.Contains(string(data), "shutting down") {
		t.Errorf("heard %s (%v)", data, err)
	}
	hear(t, conn, "response.failed")
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("closed with %v", err)
	}
	await.Receive(t, stopped, "the daemon to stop")
	g.Ended(t, perigee.OutcomeCutOff)
}

// hearError reads the next message, which has to be an error, and returns its status.
func hearError(t *testing.T, conn *websocket.Conn) (status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	_, data, err := conn.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var event struct {
		Type   string
		Status int
	}
	if err := json.Unmarshal(data, &event); err != nil || event.Type != "error" {
		t.Fatalf("heard %s (%v)", data, err)
	}
	return event.Status
}

// A key that expires while its socket is open is refused as such, and the record says the same.
func TestExpiredKeyOnASocketIsRecordedAsTold(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	stage := daemontest.NewStage(t)
	clock := &daemontest.Clock{At: time.Now()}
	g := daemontest.Start(t, stage.Config("keys: [{name: one, secret: secret-one, expires: "+clock.Now().Add(time.Hour).Format(time.RFC3339)+"}]\n"),
		func(o *daemon.Options) { o.Now = clock.Now })
	conn := openSocket(t, g, "secret-one")
	clock.Advance(2 * time.Hour)
	say(t, conn, askOverSocket)
	if status := hearError(t, conn); status != http.StatusUnauthorized {
		t.Errorf("told %d", status)
	}
	call := g.Ended(t, perigee.OutcomeFailed)
	if row := call.TraceRow(); row.Status != http.StatusUnauthorized || call.Client.Key != "one" {
		t.Errorf("recorded as %+v", row)
	}
}

// Each answer on a socket holds a place of limits.concurrency, and an open socket without one holds
// none.
func TestAnswersOnSocketsCountForConcurrency(t *testing.T) {
	t.Parallel()
	stage := daemontest.NewStage(t)
	g := daemontest.Start(t, stage.Config("limits: {concurrency: 1}\n"), nil)
	busy, idle := openSocket(t, g, ""), openSocket(t, g, "")
	say(t, busy, askOverSocket)
	hear(t, busy, "response.output_text.delta")
	say(t, idle, askOverSocket)
	if status := hearError(t, idle); status != http.StatusTooManyRequests {
		t.Errorf("told %d", status)
	}
	if got := daemontest.Status(t, g, daemontest.Streaming, ""); got != http.StatusTooManyRequests {
		t.Errorf("over HTTP: %d", got)
	}
	close(stage.GoOn)
	hear(t, busy, "response.completed")
	await.Until(t, "the place is free", func() bool { return daemontest.Status(t, g, daemontest.Streaming, "") == http.StatusOK })
	say(t, idle, askOverSocket)
	hear(t, idle, "response.completed")
}

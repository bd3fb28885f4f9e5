package antigravity

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/lib/wire"
	"perigee/internal/simulator"
	"perigee/internal/simulator/rules"
	"perigee/internal/testing/perigeetest"
)

// All calls are answered although the connection to the gateway died, and the one that waited on it
// has that on record.
func TestDeadConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, testDeadConnection)
}

// testDeadConnection runs in a bubble.
func testDeadConnection(t *testing.T) {
	provider, err := simulator.New(simulator.Options{Seed: t.Name(), Switches: rules.StrictSwitches()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = provider.Close() })
	pipes := perigeetest.NewPipes()
	transport := wire.NewTransport()
	transport.Configure(pipes.HTTP2(t, provider))
	u := New(Options{
		Name: "gravity", Endpoints: []string{"http://gateway.example"}, Accounts: &fakePool{token: access(t, provider.Transport())},
		UserAgent: UserAgent("", "test"), Transport: transport, FirstByte: time.Minute,
	})
	t.Cleanup(func() { _ = u.Close() })
	for i := range 21 {
		synctest.Wait() // the transport keeps a connection just after the call that made it
		if i == 1 {
			pipes.Stall()
		}
		req := prompt(t, "gemini-3-flash", user("[[text: hello]]"))
		req.Log = &perigee.CallLog{}
		if heard := strings.Join(listen(req, u.Stream(t.Context(), req)), "; "); !strings.Contains(heard, "text hello; finish STOP") {
			t.Fatalf("call %d: %s", i, heard)
		}
		said := ""
		for _, s := range req.Log.Attempts() {
			said += fmt.Sprintf("%s %s %s; ", s.Account, s.Class, s.Error)
		}
		if lost := strings.HasPrefix(said, "ada@example.com unavailable upstream gravity cannot be reached or broke off: http2: client connection lost; ada@example.com  ; "); lost != (i == 1) {
			t.Errorf("call %d: steps %q", i, said)
		}
	}
	if n := pipes.Dialed(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

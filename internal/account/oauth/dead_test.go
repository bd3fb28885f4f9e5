package oauth

import (
	"testing"
	"testing/synctest"

	"perigee"
	"perigee/internal/lib/wire"
	"perigee/internal/simulator"
	"perigee/internal/testing/perigeetest"
)

// Tokens are refreshed although the connection to the sign-in server died.
func TestDeadConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, testDeadConnection)
}

// testDeadConnection runs in a bubble.
func testDeadConnection(t *testing.T) {
	provider, err := simulator.New(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = provider.Close() })
	pipes := perigeetest.NewPipes()
	transport := wire.NewTransport()
	transport.Configure(pipes.HTTP2(t, provider))
	t.Cleanup(transport.CloseIdleConnections)
	const origin = "http://accounts.example"
	client := NewClient(Options{
		TokenURL: origin + "/token", UserinfoURL: origin + "/oauth2/v2/userinfo",
		ClientID: "client", ClientSecret: perigee.NewSecret("client-secret-of-the-test"), Transport: transport,
	})
	for i := range 10 {
		synctest.Wait() // the transport keeps a connection just after the call that made it
		if i == 1 {
			pipes.Stall()
		}
		grant, err := client.Refresh(t.Context(), perigee.NewSecret("sim-refresh-ada"))
		if err != nil {
			t.Fatalf("refresh %d: %v", i, err)
		}
		synctest.Wait()
		if email, err := client.Email(t.Context(), grant.Access); email != "ada@example.com" || err != nil {
			t.Fatalf("call %d: %q, %v", i, email, err)
		}
	}
	if n := pipes.Dialed(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

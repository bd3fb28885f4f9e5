package antigravity

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/perigeetest"
	"perigee/internal/simulator"
	"perigee/internal/simulator/rules"
	"perigee/internal/upstream/wire"
)

// All calls are answered although the connection to the gateway died, and the one that waited on it has that on record.
func TestDeadConnectionIsReplaced(t *testing.T) {
	perigeetest.Slow(t)
	provider, err := simulator.New(simulator.Options{Seed: t.Name(), Switches: rules.StrictSwitches()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = provider.Close() })
	server := httptest.NewUnstartedServer(provider)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	relay := perigeetest.NewRelay(t, server.Listener.Addr().String())
	transport := wire.NewTransport()
	roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	transport.Configure(func(t *http.Transport) { t.TLSClientConfig = &tls.Config{RootCAs: roots} })
	u := New(Options{
		Name: "gravity", Endpoints: []string{"https://" + relay.Address}, Accounts: &lender{token: access(t, provider.Transport())},
		UserAgent: UserAgent("", "test"), Transport: transport, FirstByte: time.Minute,
	})
	t.Cleanup(func() { _ = u.Close() })
	for i := range 21 {
		if i == 1 {
			relay.Stall()
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
	if n := relay.Accepted(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

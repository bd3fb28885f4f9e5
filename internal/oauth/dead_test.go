package oauth

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"perigee"
	"perigee/internal/perigeetest"
	"perigee/internal/simulator"
	"perigee/internal/upstream/wire"
)

// Tokens are refreshed although the connection to the sign-in server died.
func TestDeadConnectionIsReplaced(t *testing.T) {
	perigeetest.Slow(t)
	provider, err := simulator.New(simulator.Options{})
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
	t.Cleanup(transport.CloseIdleConnections)
	client := NewClient(Options{
		TokenURL: "https://" + relay.Address + "/token", UserinfoURL: "https://" + relay.Address + "/oauth2/v2/userinfo",
		ClientID: "client", ClientSecret: perigee.NewSecret("client-secret-of-the-test"), Transport: transport,
	})
	for i := range 10 {
		if i == 1 {
			relay.Stall()
		}
		grant, err := client.Refresh(t.Context(), perigee.NewSecret("sim-refresh-ada"))
		if err != nil {
			t.Fatalf("refresh %d: %v", i, err)
		}
		if email, err := client.Email(t.Context(), grant.Access); email != "ada@example.com" || err != nil {
			t.Fatalf("call %d: %q, %v", i, email, err)
		}
	}
	if n := relay.Accepted(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

package lsclient

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/testing/perigeetest"
)

// TestPortOfAnotherUser has a process of another user listen at the port of a language server that
// has ended. It gets neither the token nor a prompt, unless the language server may be of that
// user.
func TestPortOfAnotherUser(t *testing.T) {
	port, got := perigeetest.ListenAsAnotherUser(t, 2)
	options := Options{Endpoint: Fixed(Endpoint{HTTP: port, CSRF: perigee.NewSecret("secret-token")})}
	if err := New(options).Heartbeat(t.Context()); err == nil || !strings.Contains(err.Error(), "the port belongs to another user") {
		t.Errorf("got %v", err)
	}
	options.Users = func() []int { return []int{65534} }
	conn, err := options.dial(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write([]byte("hello"))
	_ = conn.Close()
	if sent := got(); !slices.Equal(sent, []string{`""`, `"hello"`}) {
		t.Errorf("the other user got %s", sent)
	}
}

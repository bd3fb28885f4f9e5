package server_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"perigee/internal/server"
	"perigee/internal/server/membudget"
)

// Buffers of earlier messages are used again. What arrives in them has to be reserved like anything
// else, and is released once.
func TestMessagesOfASocketAreReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openMemory(t, 64*mb, server.Settings{})
		p := r.connect(t)
		large := strings.Repeat("x", 1_000_000)
		for range 8 {
			p.say(large) // no JSON
			p.hear()
			synctest.Wait()
			if used := r.budget.Used(); used != membudget.Base {
				t.Fatalf("%d bytes are used by a socket without a message", used)
			}
		}
		w, err := p.conn.Writer(t.Context(), websocket.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(large)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if used := r.budget.Used(); used < membudget.Base+int64(len(large))-64<<10 { // some of it is in the client's buffer
			t.Errorf("%d bytes are used while a message of %d arrives", used, len(large))
		}
		_ = p.conn.CloseNow()
		synctest.Wait()
		if used := r.budget.Used(); used != 0 {
			t.Errorf("%d bytes are used after the socket", used)
		}
	})
}

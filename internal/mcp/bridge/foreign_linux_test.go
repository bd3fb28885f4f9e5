package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/mcp/ask"
	"perigee/internal/testing/perigeetest"
)

// TestPortOfAnotherUser has a process of another user listen at the port of an announcement. It
// must get neither the token nor anything else, and the list says whose the port is.
func TestPortOfAnotherUser(t *testing.T) {
	port, got := perigeetest.ListenAsAnotherUser(t, 2)
	w := Window{PID: os.Getpid(), Port: port, Token: perigee.NewSecret("secret-of-the-window")}
	_, err := Dial(t.Context(), w, "test")
	if !errors.Is(err, ask.ErrDeclined) || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("got %v", err)
	}
	dir := t.TempDir()
	text, err := json.Marshal(map[string]any{"version": 1, "pid": w.PID, "port": port, "token": "secret-of-the-window", "workspace": []string{}, "ide": IDE{"Antigravity", "1"}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, strconv.Itoa(w.PID)+".json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	rows, problems, err := List(t.Context(), dir, "test")
	if err != nil || len(rows) != 1 || rows[0].State != Unreachable || len(problems) != 1 ||
		problems[0] != (Problem{file, fmt.Sprintf("its port %d belongs to another user; reload the window", port)}) {
		t.Errorf("got %+v, %v, %v", rows, problems, err)
	}
	if sent := got(); !slices.Equal(sent, []string{`""`, `""`}) {
		t.Errorf("the other user got %s", sent)
	}
}

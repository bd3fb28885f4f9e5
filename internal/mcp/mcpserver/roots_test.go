package mcpserver

import (
	"bufio"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"perigee/internal/lib/filetool"
)

// TestRootsOfTheClientNarrowTheFileTools speaks raw JSON, because the SDK's client prefers the
// version without roots.
func TestRootsOfTheClientNarrowTheFileTools(t *testing.T) {
	tools, dir := filesIn(t, true)
	put(t, filepath.Join(dir, "in", "a.txt"), "inside\n")
	put(t, filepath.Join(dir, "out", "b.txt"), "outside\n")
	b := &backendRig{}
	r := raw(t, newServer(t, Options{Backend: b, Files: func(Caller) *filetool.Tools { return tools }}), context.Background())
	r.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"raw","version":"1"}}}`)
	r.receive()
	r.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	answer := func(result string) {
		t.Helper()
		m := r.receive()
		if m.Method != "roots/list" {
			t.Fatalf("got %+v", m)
		}
		r.send(`{"jsonrpc":"2.0","id":` + fmt.Sprint(m.ID) + `,` + result + `}`)
	}
	read := func(path string) string {
		t.Helper()
		r.send(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"` + path + `"}}}`)
		m := r.receive()
		if m.ID != 9.0 {
			t.Fatalf("got %+v", m)
		}
		return string(m.Result)
	}
	answer(`"result":{"roots":[{"uri":"file://` + dir + `/in"},{"uri":"https://example.org"},{"uri":"file:///"}]}`)
	if got := read(filepath.Join(dir, "in", "a.txt")); !strings.Contains(got, "inside") {
		t.Errorf("inside: %s", got)
	}
	r.send(askLine(9, "p"))
	r.receive()
	if got := b.lastAsk(t).Roots; !slices.Contains(got, dir+"/in") {
		t.Errorf("the roots of the ask are %v", got)
	}

	r.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	answer(`"result":{"roots":[{"uri":"file://` + dir + `/in"}]}`)
	if got := read(filepath.Join(dir, "out", "b.txt")); !strings.Contains(got, `"isError":true`) {
		t.Errorf("outside: %s", got)
	}
	if got := read("a.txt"); !strings.Contains(got, "inside") {
		t.Errorf("relative to the root of the client: %s", got)
	}

	for _, none := range []string{`"result":{"roots":[]}`, `"error":{"code":-32601,"message":"no"}`, `"result":{"roots":[{"uri":"file:///nowhere"}]}`} {
		r.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		answer(none)
		if got := read("out/b.txt"); !strings.Contains(got, "outside") {
			t.Errorf("%s: %s", none, got)
		}
	}
	if got := read("../../../../etc/passwd"); !strings.Contains(got, `"isError":true`) {
		t.Errorf("wider: %s", got)
	}
}

// TestRootsOverHTTP answers the server's question on the stream of the call that needs the roots.
func TestRootsOverHTTP(t *testing.T) {
	tools, dir := filesIn(t, true)
	put(t, filepath.Join(dir, "in", "a.txt"), "inside\n")
	h := overHTTP(t, newServer(t, Options{Files: func(Caller) *filetool.Tools { return tools }}))
	init := strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"roots":{}}`, 1)
	r := h.request(t, soon(t), "POST", init)
	id := r.Header.Get("Mcp-Session-Id")
	readEvents(t, r.Body)
	for _, first := range []bool{true, false} {
		r = h.request(t, soon(t), "POST", `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"a.txt"}}}`,
			"Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25")
		body := bufio.NewReader(r.Body)
		if first {
			question := readMessage(t, body)
			if question.Method != "roots/list" {
				t.Fatalf("got %+v", question)
			}
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"roots":[{"uri":"file://%s/in"}]}}`, question.ID, dir)
			if r := h.request(t, soon(t), "POST", answer, "Mcp-Session-Id", id); r.StatusCode != 202 {
				t.Errorf("status %d", r.StatusCode)
			}
		}
		if m := readMessage(t, body); m.ID != 9.0 || !strings.Contains(string(m.Result), "inside") {
			t.Errorf("got %+v %s", m, m.Result)
		}
	}
}

// TestAClientThatNamesNoRoots does not answer the question, and cancels its call.
func TestAClientThatNamesNoRoots(t *testing.T) {
	tools, dir := filesIn(t, true)
	put(t, filepath.Join(dir, "a.txt"), "inside\n")
	h := overHTTP(t, newServer(t, Options{Files: func(Caller) *filetool.Tools { return tools }}))
	init := strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"roots":{}}`, 1)
	r := h.request(t, soon(t), "POST", init)
	id := r.Header.Get("Mcp-Session-Id")
	readEvents(t, r.Body)
	call := `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"a.txt"}}}`
	r = h.request(t, soon(t), "POST", call, "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25")
	body := bufio.NewReader(r.Body)
	readMessage(t, body)
	h.request(t, soon(t), "POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`, "Mcp-Session-Id", id)
	if m := readMessage(t, body); m.ID != 9.0 && m.Method != "notifications/cancelled" {
		t.Errorf("got %+v", m)
	}
	// The next call asks again.
	r = h.request(t, soon(t), "POST", strings.Replace(call, "9", "10", 1), "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25")
	if m := readMessage(t, bufio.NewReader(r.Body)); m.Method != "roots/list" {
		t.Errorf("got %+v", m)
	}
}

func TestFileURIs(t *testing.T) {
	for uri, want := range map[string]string{
		"file:///a/b": "/a/b", "file://localhost/a": "/a", "FILE:///a%20b": "/a b", "file:///": "/",
		"file://server/a": "", "https://example.org/a": "", "/a": "", "file:": "", "%": "",
	} {
		if runtime.GOOS == "windows" {
			want = strings.TrimPrefix(want, "/")
		}
		if got, ok := fileURI(uri); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", uri, got, ok)
		}
	}
}

package connect_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/lib/edit"
	"perigee/internal/server/connect"
)

// Whatever a user does between runs of connect and undo: a value that undo has not put back is
// named, or the file with it; undo does not forget a client before every setting is what it was
// before the first connect; entries are whole or gone; and connect with undo right after it changes
// no byte of a file that has nothing of perigee.
func TestRoundsOfConnectAndUndo(t *testing.T) {
	undone := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		client := rapid.SampledFrom([]string{"codex", "zed", "opencode", "continue", "claude-code", "aider"}).Draw(rt, "client")
		m := &rounds{rig: newRig(t), rt: rt, client: client, undone: undone}
		m.file = m.find(client).Files(m.machine, target)[0]
		if rapid.Bool().Draw(rt, "there") {
			m.write(m.file.Path, foreign[m.file.Format], 0o644)
		}
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			m.step(rapid.SampledFrom([]string{"connect", "connect", "set", "remove", "undo", "undo", "round"}).Draw(rt, "step"))
		}
		m.undo()
		if m.first == nil {
			return
		}
		if m.first.data == nil {
			_ = os.Remove(m.file.Path)
		} else {
			m.write(m.file.Path, string(m.first.data), 0o644)
		}
		m.undo()
		if left, _ := filepath.Glob(filepath.Join(m.store.Dir, client+"*")); len(left) > 0 {
			rt.Fatalf("everything is restored, and the store has %q", left)
		}
	})
	if t.Logf("%v", undone); undone["forgotten"] == 0 { // by the last undo of almost every check
		t.Error("no client was undone")
	}
}

type rounds struct {
	*rig
	rt     *rapid.T
	client string
	file   connect.File
	first  *before // nil means undo has nothing to do
	n      int
	undone map[string]int // how often, by what became of the record

	connected bool // by the last run; what the user sets after undo is not to be undone
}

// A before is a file before the first connect. data is nil if there was none.
type before struct {
	data []byte
	tree map[string]any
}

func (m *rounds) content() []byte {
	data, _ := os.ReadFile(m.file.Path)
	return data
}

func (m *rounds) step(name string) {
	switch name {
	case "connect":
		if m.first == nil {
			m.first = &before{m.content(), m.tree(m.file)}
		}
		m.connect(m.client, target)
		m.connected = true
	case "set":
		m.n++
		s := rapid.SampledFrom(m.file.Set).Draw(m.rt, "setting")
		if own := mine([]edit.Setting{s}, 1); len(own) > 0 && m.content() != nil && m.connected {
			if _, list := s.Value.(edit.Raw); !list {
				own[0].Value = fmt.Sprint("mine-", m.n)
			}
			m.set(m.file, own)
		}
	case "remove":
		_ = os.Remove(m.file.Path)
	case "undo":
		m.undo()
	case "round":
		if data := m.content(); !strings.Contains(string(data), "perigee") && !strings.Contains(string(data), m.find(m.client).Model) && !strings.Contains(string(data), "8741") {
			m.step("connect")
			m.undo()
			if now := m.content(); !bytes.Equal(now, data) || (now == nil) != (data == nil) {
				m.rt.Fatalf("a round has changed the file from\n%q\nto\n%q", data, now)
			}
		}
	}
}

// undo undoes, and checks what that says and leaves.
func (m *rounds) undo() {
	outcomes, err := m.store.Undo(m.client)
	if m.first == nil {
		if err == nil {
			m.rt.Fatal("undo of a client that is not connected")
		}
		return
	}
	if err != nil {
		m.rt.Fatal(err)
	}
	m.connected = false
	o := outcomes[0]
	named := append(slices.Clone(o.Kept), o.Gone...)
	if (o.Result == connect.Missing) != (m.content() == nil && o.Result != connect.Removed) {
		m.rt.Fatalf("the file is %q, and undo says %q", m.content(), o.Result)
	}
	now := m.tree(m.file)
	for _, s := range m.file.Set {
		value, there := edit.Get(now, s.Path)
		was, existed := edit.Get(m.first.tree, s.Path)
		covered := m.content() == nil && o.Copy != "" ||
			slices.ContainsFunc(named, func(path edit.Path) bool { return under(s.Path, path) }) || s.Part != edit.Independent
		if (there != existed || !reflect.DeepEqual(value, was)) && !covered {
			m.rt.Fatalf("%s is %v, was %v, and undo says %+v", s.Path, value, was, o)
		}
	}
	for _, entry := range m.find(m.client).Entries {
		if _, there := edit.Get(now, entry); !there || m.has(m.first.tree, entry) {
			continue
		}
		for _, s := range m.file.Set {
			if under(s.Path, entry) && !m.has(now, s.Path) {
				m.rt.Fatalf("the entry %s has no %s: %v", entry, s.Path, now)
			}
		}
	}
	result := "named"
	if o.Result == connect.Missing {
		result = "gone"
	}
	if _, err := os.Stat(filepath.Join(m.store.Dir, m.client+".json")); err != nil {
		if len(named) > 0 || o.Copy != "" {
			m.rt.Fatalf("undo forgets what it says: %+v", o)
		}
		m.first, result = nil, "forgotten"
	} else if o.Copy != "" {
		if data, _ := os.ReadFile(o.Copy); !bytes.Equal(data, m.first.data) {
			m.rt.Fatalf("the copy is %q, and the file was %q", data, m.first.data)
		}
	}
	m.undone[result]++
}

func (m *rounds) has(tree map[string]any, path edit.Path) bool {
	_, there := edit.Get(tree, path)
	return there
}

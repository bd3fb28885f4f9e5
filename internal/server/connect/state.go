package connect

import (
	"reflect"
	"slices"

	"perigee/internal/lib/edit"
)

// A State is whether a client uses perigee.
type State string

// The states.
const (
	Connected    State = "connected"
	Changed      State = "changed" // its settings differ from what connect has written
	NotConnected State = "not connected"
	NotInstalled State = "not installed" // and not connected
)

// A Status is a client in a listing. Names are part of the contract.
type Status struct {
	Client    string `json:"client"`
	State     State  `json:"state"`
	File      string `json:"file"` // the first settings file; empty if there is none
	Installed bool   `json:"installed"`
	Model     string `json:"-"` // that perigee connect has written; empty if there is none
}

// States returns the state of every client that can be connected, in the order of the table.
// installed reports whether a program is on PATH.
func (s Store) States(m Machine, t Target, installed func(program string) bool) ([]Status, error) {
	var all []Status
	for _, c := range Clients() {
		if c.Refused {
			continue
		}
		status, err := s.Status(&c, m, t, installed(c.Program))
		if err != nil {
			return nil, err
		}
		all = append(all, status)
	}
	return all, nil
}

// Status returns the state of a client. installed is whether its program was found.
func (s Store) Status(c *Client, m Machine, t Target, installed bool) (Status, error) {
	status := Status{Client: c.Name, State: NotConnected, Installed: installed}
	if !installed {
		status.State = NotInstalled
	}
	k, err := s.load(c.Name)
	if err != nil {
		return status, err
	}
	for _, f := range c.Files(m, t) {
		if f.URL != nil || status.File == "" {
			status.File = f.Path
		}
		tree, err := readTree(f)
		if err != nil || f.URL == nil || k.Undone && k.isLeft(f.URL) && c.selects(f) {
			continue // an entry that undo has left is not selected any more
		}
		value, _ := edit.Get(tree, f.URL)
		if at := slices.IndexFunc(f.Set, func(s edit.Setting) bool { return slices.Equal(s.Path, f.URL) }); at >= 0 && value == f.Set[at].Value {
			status.State = Connected // also if it was set up by hand
		}
	}
	if len(k.Files) > 0 && !k.Undone {
		status.File, status.State, status.Model = k.Files[0].Path, k.state(), k.Model
	}
	return status, nil
}

// isLeft reports whether undo has left a setting of connect.
func (k *record) isLeft(path edit.Path) bool {
	return slices.ContainsFunc(k.Files, func(f backup) bool {
		return slices.ContainsFunc(f.Undo.Was, func(w edit.Change) bool { return slices.Equal(w.Path, path) })
	})
}

// selects reports whether the address is in an entry that another setting of the file selects.
func (c *Client) selects(f File) bool {
	within := func(path, entry edit.Path) bool {
		return len(path) > len(entry) && slices.Equal(path[:len(entry)], entry)
	}
	return slices.ContainsFunc(c.Entries, func(entry edit.Path) bool {
		return within(f.URL, entry) && slices.ContainsFunc(f.Set, func(s edit.Setting) bool { return !within(s.Path, entry) })
	})
}

// Address returns the address that the settings of a client have now, empty if there is none.
func (c *Client) Address(m Machine) string {
	for _, f := range c.Files(m, Target{}) {
		if f.URL == nil {
			continue
		}
		if tree, err := readTree(f); err == nil {
			if value, _ := edit.Get(tree, f.URL); value != nil {
				address, _ := value.(string)
				return address
			}
		}
	}
	return ""
}

// state reports whether the files still have the settings of connect.
func (k *record) state() State {
	for _, f := range k.Files {
		if !holds(File{Path: f.Path, Format: f.Format}, f.Set) {
			return Changed
		}
	}
	return Connected
}

// holds reports whether a file has all settings.
func holds(f File, settings []edit.Setting) bool {
	tree, err := readTree(f)
	if err != nil {
		return false
	}
	for _, s := range settings {
		value, ok := edit.Get(tree, s.Path)
		if !ok {
			return false
		}
		switch value.(type) {
		case map[string]any, []any: // it was written as a text, and is not compared
			continue
		}
		if !same(value, s.Value) {
			return false
		}
	}
	return true
}

// same compares two values of settings. Formats read the same number as different types.
func same(a, b any) bool {
	x, isNumber := number(a)
	y, areNumbers := number(b)
	if isNumber && areNumbers {
		return x == y
	}
	return a == b
}

func number(v any) (float64, bool) {
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return float64(r.Int()), true
	case r.CanUint():
		return float64(r.Uint()), true
	case r.CanFloat():
		return r.Float(), true
	}
	return 0, false
}

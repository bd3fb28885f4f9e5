package redirect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"perigee/internal/lib/atomicfile"
)

// A state is the record of the last install. It has only data that cannot be read from the system,
// or not by all users.
type state struct {
	User    string `json:"user"`
	UID     int    `json:"uid"`
	Port    int    `json:"port"`
	Backend string `json:"backend"`
	// System identifies the run of the system, and the network namespace, of the rules.
	System string  `json:"system"`
	Made   []chain `json:"made,omitempty"`
}

// A chain is one that iptables creates in nf_tables together with a rule, and does not remove.
type chain struct {
	Family string `json:"family"` // ip or ip6
	Table  string `json:"table"`
	Name   string `json:"chain"`
	Whole  bool   `json:"whole"` // the table was made as well
}

func (r *Redirect) stateFile() string { return filepath.Join(r.dir, "state.json") }

// readState returns the state. It is empty if there is none.
func (r *Redirect) readState() (state, error) {
	var s state
	text, err := os.ReadFile(r.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("state of the redirect: %w; remove the file %s", err, r.stateFile())
	}
	return s, nil
}

// writeState writes the state for every user to read.
func (r *Redirect) writeState(s state) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(r.dir, 0o755); err != nil { // independent of the umask
		return err
	}
	if err := atomicfile.Write(r.stateFile(), append(text, '\n')); err != nil {
		return err
	}
	return os.Chmod(r.stateFile(), 0o644)
}

// refreshState writes the state again if it does not match the installed redirect. It keeps the
// recorded chains of iptables.
func (r *Redirect) refreshState(now Status) error {
	s, err := r.readState()
	want := state{User: now.User, UID: now.UID, Port: now.Port, Backend: now.Backend, System: systemID()}
	if err == nil && s.System == want.System {
		if want.Made = s.Made; reflect.DeepEqual(s, want) {
			return nil
		}
	}
	return r.writeState(want)
}

// removeState removes the state and its directory, unless that has other files.
func (r *Redirect) removeState() error {
	if err := os.Remove(r.stateFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Remove(r.dir)
	return nil
}

package connect

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"perigee"
	"perigee/internal/lib/edit"
	"perigee/internal/lib/redact"
)

// A Plan has the changes that connect is going to make. Making one changes nothing.
type Plan struct {
	Client *Client
	Files  []Change

	store  Store
	target Target
}

// A Change is the change of one file.
type Change struct {
	File
	onDisk diskFile // before the change
	after  []byte
	mode   fs.FileMode // after it
	undo   *edit.Undo
}

// NewPlan reads the settings files of a client and determines the changes. An error names the file
// that cannot be changed, and the reason.
func (s Store) NewPlan(c *Client, m Machine, t Target) (*Plan, error) {
	p := &Plan{Client: c, store: s, target: c.complete(t)}
	k, err := s.load(c.Name)
	if err != nil {
		return nil, err
	}
	for _, f := range c.Files(m, t) {
		on, err := look(f.Path, f.root)
		if err != nil {
			return nil, unusable(c, err)
		}
		current, err := k.withoutStale(f, on)
		if err != nil {
			return nil, unusable(c, err)
		}
		after, undo, err := apply(f, current)
		if err != nil {
			return nil, unusable(c, err)
		}
		change := Change{File: f, onDisk: on, after: after, mode: on.mode, undo: undo}
		if !on.exists || f.Secret && !p.target.Key.IsZero() {
			change.mode = 0o600
		}
		p.Files = append(p.Files, change)
	}
	return p, nil
}

func unusable(c *Client, err error) error {
	return perigee.Errorf(perigee.ClassInvalid, "%v; nothing was changed", err).
		WithHint("perigee connect %s --print shows what to set by hand", c.Name)
}

// Empty reports whether everything is set already.
func (p *Plan) Empty() bool {
	return !slices.ContainsFunc(p.Files, Change.changes)
}

func (c Change) changes() bool {
	return !c.onDisk.exists || !bytes.Equal(c.onDisk.data, c.after) || c.mode != c.onDisk.mode
}

// Secret reports whether the key is written to a file.
func (p *Plan) Secret() bool {
	return !p.target.Key.IsZero() && slices.ContainsFunc(p.Files, func(c Change) bool { return c.Secret })
}

// Diff returns the change as a unified diff. The key is not in it.
func (p *Plan) Diff() string {
	text := new(strings.Builder)
	for _, c := range p.Files {
		before := c.Path
		if !c.onDisk.exists {
			before = os.DevNull
		}
		whole := diff.Diff(before, p.redact(c.onDisk.data), c.Path, p.redact(c.after))
		if _, body, ok := bytes.Cut(whole, []byte("\n")); ok { // the first line is a command
			text.Write(body)
		}
	}
	return text.String()
}

// redact replaces the key, also as JSON and TOML escape it.
func (p *Plan) redact(data []byte) []byte {
	if p.target.Key.IsZero() {
		return data
	}
	// The redactor below leaves short secrets alone.
	data = bytes.ReplaceAll(data, []byte(p.target.Key.Reveal()), []byte(redact.Mark))
	return redact.New(p.target.Key).AppendAll(nil, data)
}

// Print returns the settings as files that have nothing else. name is printed in place of the key.
func (c *Client) Print(m Machine, t Target, name string) (string, error) {
	if !t.Key.IsZero() {
		t.Key = perigee.NewSecret(name)
	}
	text := new(strings.Builder)
	for i, f := range c.Files(m, t) {
		content, _, err := apply(f, nil)
		if err != nil {
			return "", err
		}
		if i > 0 {
			text.WriteString("\n")
		}
		comment := "#"
		if f.Format == edit.JSON {
			comment = "//"
		}
		fmt.Fprintf(text, "%s %s\n%s", comment, f.Path, content)
	}
	return text.String(), nil
}

// Run writes the files. The data for undoing it is stored before the first one is written.
func (p *Plan) Run() error {
	kept, err := p.store.load(p.Client.Name)
	if err != nil {
		return err
	}
	for _, c := range p.Files {
		now, err := look(c.Path, c.root)
		if err != nil {
			return unusable(p.Client, err)
		}
		if c.onDisk.check() != nil || now.target != c.onDisk.target {
			return perigee.Errorf(perigee.ClassUnavailable, "%s was changed meanwhile; nothing was written", c.Path).WithHint("run this again")
		}
	}
	for i := range p.Files {
		if err := kept.add(&p.Files[i]); err != nil {
			return unusable(p.Client, err)
		}
	}
	kept.Undone = false
	kept.Client, kept.URL, kept.Model = p.Client.Name, p.target.URL, p.target.Model
	if err := p.store.save(kept); err != nil {
		return err
	}
	for _, c := range p.Files {
		if !c.changes() {
			continue
		}
		err := c.onDisk.replace(c.after, c.mode)
		if errors.Is(err, errChanged) {
			return perigee.Errorf(perigee.ClassUnavailable, "%v; it was not written", err).WithHint("run this again")
		}
		if err != nil {
			return perigee.Errorf(perigee.ClassInternal, "%w", err).
				WithHint("perigee connect %s --undo reverts the changes", p.Client.Name)
		}
	}
	return nil
}

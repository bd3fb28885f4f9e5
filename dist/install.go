package dist

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/lib/atomicfile"
)

// The last line of each file that install writes has the hash of the lines before it, so that a
// file that the user has edited is known.
const wrote = "written by perigee service install, sha256 "

// marked returns the content of a file with its last line.
func marked(content string) string {
	sum := sha256.Sum256([]byte(content))
	line := wrote + hex.EncodeToString(sum[:])
	if strings.HasPrefix(content, "<?xml") {
		return content + "<!-- " + line + " -->\n"
	}
	return content + "# " + line + "\n"
}

// unchanged reports whether a file is as install has written it, now or in an earlier version.
func unchanged(text string) bool {
	at := strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n") + 1
	return at > 0 && strings.Contains(text[at:], wrote) && marked(text[:at]) == text
}

// unmarked returns what install has written without its last line.
func unmarked(text []byte) []byte {
	return text[:bytes.LastIndexByte(bytes.TrimSuffix(text, []byte("\n")), '\n')+1]
}

// run runs commands and reports them.
func (m *Manager) run(ctx context.Context, commands ...[]string) error {
	for _, command := range commands {
		if _, err := m.host.Run(ctx, command...); err != nil {
			return err
		}
		m.host.Report("ran: %s", strings.Join(command, " "))
	}
	return nil
}

// Reach returns an error with the next step if the service manager cannot be reached.
func (m *Manager) Reach(ctx context.Context) error {
	if _, err := m.host.Run(ctx, m.check...); err != nil {
		return fmt.Errorf("the service manager cannot be reached: %w; %s", err, m.reach)
	}
	return nil
}

// Plan returns the files that Install would write, and why the remaining ones stay.
func (m *Manager) Plan() (write []File, kept []string, err error) {
	if m.unusable != nil && m.Packaged == "" {
		return nil, nil, m.unusable
	}
	if err := m.foreign(); err != nil {
		return nil, nil, err
	}
	for _, f := range m.Files {
		old, err := os.ReadFile(m.host.Root + f.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			write = append(write, f)
		case err != nil:
			return nil, nil, err
		case f.Once || string(old) == marked(f.Content):
		case unchanged(string(old)):
			write = append(write, f)
		default:
			kept = append(kept, fmt.Sprintf("%s: kept, because you have changed it; delete it and run perigee service install again to replace it", f.Path))
		}
	}
	return write, kept, nil
}

// foreign returns an error if another kind of file has the name of a unit, such as the link of a
// masked unit. systemctl disable would remove a link.
func (m *Manager) foreign() error {
	for _, f := range m.Files {
		if info, err := os.Lstat(m.host.Root + f.Path); err == nil && !f.Once && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is a link or a directory, and not a file that perigee service has written; move it away, and run this again", f.Path)
		}
	}
	return nil
}

// Renew has Install restart a service that is running, although its files are the same.
func (m *Manager) Renew() { m.renew = true }

// Install writes the files, enables the service and starts it. It returns false if all of that was
// done already. If a step fails, the steps before it are undone.
func (m *Manager) Install(ctx context.Context) (changed bool, err error) {
	before := m.state(ctx)
	write, kept, err := m.Plan()
	if err != nil {
		return false, err
	}
	for _, line := range kept {
		m.host.Report("%s", line)
	}
	newer := m.renew || before.Outdated || slices.ContainsFunc(write, func(f File) bool { return !f.Once })
	if len(write) == 0 && !newer && before.Enabled && before.Running {
		return false, nil
	}
	if err := m.run(ctx, m.prepare...); err != nil {
		return false, err
	}
	undo := undoLog{m: m, before: before}
	defer func() {
		if err != nil {
			undo.run(context.WithoutCancel(ctx))
		}
	}()
	for _, f := range write {
		if err := undo.write(f); err != nil {
			return false, err
		}
		m.host.Report("wrote %s", f.Path)
	}
	steps := m.enable
	if !before.Installed {
		steps = slices.Concat(m.create, steps)
	}
	if before.Running && newer {
		steps = slices.Concat(steps, m.restart)
	} else {
		steps = slices.Concat(steps, m.start)
	}
	if err := m.run(ctx, steps...); err != nil {
		return false, fmt.Errorf("%w; %s shows why, and nothing was installed%s", err, m.logs, m.doubt)
	}
	return true, nil
}

// An undoLog has the files that an install has replaced and created.
type undoLog struct {
	m      *Manager
	before State
	old    []File // without content if there was no file
	dirs   []string
}

func (u *undoLog) write(f File) error {
	path := u.m.host.Root + f.Path
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := u.makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	u.old = append(u.old, File{Path: path, Content: string(old), Mode: f.Mode})
	return atomicfile.Replace(path, []byte(marked(f.Content)), f.Mode)
}

// makeDir creates a directory and those above it.
func (u *undoLog) makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := u.makeDir(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	u.dirs = append(u.dirs, dir)
	return nil
}

// run undoes an install. Errors are not reported: the one that led here is.
func (u *undoLog) run(ctx context.Context) {
	m := u.m
	if !u.before.Enabled {
		for _, command := range slices.Concat(m.stop, m.disable) {
			_, _ = m.host.Run(ctx, command...)
		}
	}
	for _, f := range u.old {
		if f.Content == "" {
			_ = os.Remove(f.Path)
		} else {
			_ = atomicfile.Replace(f.Path, []byte(f.Content), f.Mode)
		}
	}
	for _, dir := range slices.Backward(u.dirs) {
		_ = os.Remove(dir)
	}
	again := m.after
	if u.before.Running {
		again = slices.Concat(again, m.restart)
	}
	for _, command := range again {
		_, _ = m.host.Run(ctx, command...)
	}
}

// Remove stops and disables the service, and removes the files that Install wrote, unless they were
// changed. It returns false if there was nothing to remove. It can be repeated after an error.
func (m *Manager) Remove(ctx context.Context) (changed bool, err error) {
	before := m.state(ctx)
	if err := m.Hidden(ctx, before); err != nil {
		return false, err // without the files, it would run until the machine stops, and stay enabled
	}
	if err := m.foreign(); err != nil {
		return false, err
	}
	steps := m.disable
	if before.Loaded {
		steps = slices.Concat(m.stop, steps)
	}
	if before.Installed {
		if err := m.run(ctx, steps...); err != nil {
			return false, err
		}
		changed = true
	}
	removed := false
	var written []string
	for _, f := range m.Files {
		written = append(written, f.Path)
	}
	if m.variables != "" {
		written = append(written, m.variables)
	}
	for _, file := range written {
		text, err := os.ReadFile(m.host.Root + file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return changed, err
		case !unchanged(string(text)):
			m.host.Report("%s: kept, because you have written or changed it", file)
			continue
		}
		if err := os.Remove(m.host.Root + file); err != nil {
			return changed, err
		}
		m.host.Report("removed %s", file)
		changed, removed = true, true
	}
	if m.Packaged != "" {
		m.host.Report("%s: kept, because it belongs to the package of perigee", m.Packaged)
	}
	for _, dir := range m.dirs {
		if info, err := os.Lstat(m.host.Root + dir); err == nil && info.IsDir() { // and not a link to one
			_ = os.Remove(m.host.Root + dir) // unless it has something else
		}
	}
	if removed {
		return true, m.run(ctx, m.after...)
	}
	return changed, nil
}

// Print reports what Install would do.
func (m *Manager) Print() error {
	write, kept, err := m.Plan()
	if err != nil {
		return err
	}
	for _, line := range kept {
		m.host.Report("%s", line)
	}
	for _, f := range write {
		m.host.Report("would write %s:\n%s", f.Path, marked(f.Content))
	}
	for _, command := range slices.Concat(m.prepare, m.create, m.enable, m.start) {
		m.host.Report("would run: %s", strings.Join(command, " "))
	}
	return nil
}

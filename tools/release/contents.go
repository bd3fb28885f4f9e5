package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// A file is one of an archive.
type file struct {
	name    string // with slashes
	content []byte
	program bool // can be executed
}

// completions are the names of the completion scripts under which shells look for them.
var completions = []struct{ shell, name string }{
	{"bash", "perigee.bash"}, {"fish", "perigee.fish"}, {"powershell", "perigee.ps1"}, {"zsh", "_perigee"},
}

// generate returns the files that the program itself prints.
func (r *release) generate(ctx context.Context, program string) ([]file, error) {
	var files []file
	for _, c := range completions {
		script, err := r.compiler.execute(ctx, program, "completion", c.shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "completions/" + c.name, content: script})
	}
	pages, err := r.manualPages(ctx, program)
	return append(files, pages...), err
}

// manualPages returns perigee(1), and a page for each command that has a help text.
func (r *release) manualPages(ctx context.Context, program string) ([]file, error) {
	texts, err := filepath.Glob(filepath.Join(r.Source, "cmd", "perigee", "help", "*.txt"))
	if err == nil && len(texts) == 0 {
		err = errors.New("there are none")
	}
	if err != nil {
		return nil, fmt.Errorf("help texts in %s: %w", r.Source, err)
	}
	var files []file
	for _, at := range texts {
		args, name := []string{"help", "--man"}, "perigee"
		if command := strings.TrimSuffix(filepath.Base(at), ".txt"); command != "perigee" {
			args, name = append(args, command), "perigee-"+command
		}
		page, err := r.compiler.execute(ctx, program, args...)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "man/" + name + ".1", content: page})
	}
	return files, nil
}

// contents returns the files of the archive for a platform, in their order.
func (r *release) contents(p Platform, binary string, modules []module) ([]file, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	files := []file{{name: p.exe("perigee"), content: program, program: true}}
	names := []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md"}
	documents, err := filepath.Glob(filepath.Join(r.Source, "docs", "*.*"))
	if err == nil && len(documents) == 0 {
		err = errors.New("there are none")
	}
	if err != nil {
		return nil, fmt.Errorf("documents in %s: %w", r.Source, err)
	}
	for _, at := range documents {
		names = append(names, "docs/"+filepath.Base(at))
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(r.Source, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, content: content})
	}
	files = append(files, file{name: "NOTICE", content: notice(r.Version, modules)})
	files = append(files, r.shared...)
	units, err := r.units(p)
	files = append(files, units...)
	packed := make(map[string]bool)
	for _, f := range files {
		addPath(packed, f.name)
	}
	for i, f := range files {
		files[i].content = unlink(f.name, f.content, packed)
	}
	return files, err
}

// units returns the service files for a platform: those of dist for systemd on Linux, for launchd on
// macOS.
func (r *release) units(p Platform) ([]file, error) {
	var files []file
	add := func(pattern, dir string) error {
		found, err := filepath.Glob(filepath.Join(r.Source, "dist", pattern))
		for _, at := range found {
			var content []byte
			if content, err = os.ReadFile(at); err != nil {
				break
			}
			files = append(files, file{name: path.Join(dir, filepath.Base(at)), content: content})
		}
		return err
	}
	switch p.OS {
	case "linux":
		err := errors.Join(add("perigee.s*", "systemd"), add("user/perigee.service", "systemd/user"))
		if err == nil && len(files) < 4 {
			err = &fs.PathError{Op: "find units in", Path: filepath.Join(r.Source, "dist"), Err: fs.ErrNotExist}
		}
		return files, err
	case "darwin":
		return files, add("launchd/*.plist", "launchd")
	}
	return nil, nil
}

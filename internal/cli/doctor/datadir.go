package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
)

// maxWalked bounds the entries of the data directory that are looked at. Traces can be many.
const maxWalked = 50_000

// DataDir checks the owner of the data directory, that only the owner can read the files in it, and
// that files can be created. Files of a language server in its home are not checked: its own umask
// decides there. origin is where the directory was set.
func DataDir(ctx context.Context, dir string, origin config.Origin) Result {
	another := "" // the command that chooses another one; empty if it is the preset one
	if origin.Line > 0 || strings.HasPrefix(origin.Source, "environment ") {
		another = editOrigin(origin)
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := datadir.CheckWritable(dir); err != nil {
			create := `sudo install -d -m 700 -o "$(id -u)" ` + commandLine(dir)
			return blocks(fail(NameDataDir, cmp.Or(another, create), "%s does not exist and cannot be created: %v", dir, err))
		}
		return ok(NameDataDir, "%s does not exist yet; perigee creates it when it is needed", dir)
	}
	switch {
	case err != nil && another != "":
		return blocks(fail(NameDataDir, another, "%v", err))
	case err != nil:
		return look(blocks(fail(NameDataDir, commandLine("ls", "-ld", dir), "%v", err)))
	case !info.IsDir():
		return blocks(fail(NameDataDir, cmp.Or(another, commandLine("mv", dir, dir+".old")), "%s is not a directory", dir))
	case !datadir.Owned(info):
		return blocks(fail(NameDataDir, `sudo chown -R "$(id -u)" `+commandLine(dir), "%s belongs to another user", dir))
	}
	if err := datadir.CheckWritable(dir); err != nil {
		return blocks(fail(NameDataDir, commandLine("chmod", "700", dir), "%v", err))
	}
	if runtime.GOOS != "windows" {
		open, err := openToUsers(ctx, dir)
		switch {
		case len(open) > 0:
			fix := commandLine("chmod", "go=", open[0].path)
			if len(open) > 1 {
				fix = commandLine("chmod", "-R", "go=", dir)
			}
			return fail(NameDataDir, fix, "other users can read %s", openNames(open))
		case err != nil:
			return look(warn(NameDataDir, commandLine("ls", "-lR", dir), "the permissions could not be checked: %v", err))
		}
	}
	if network := networkFilesystem(dir); network != "" {
		return warn(NameDataDir, "export PERIGEE_DATA_DIR=/var/tmp/perigee-\"$(id -u)\"",
			"%s is on a network filesystem (%s), where SQLite can damage its database; use a local directory", dir, network)
	}
	return ok(NameDataDir, "%s, private to its owner", dir)
}

// An openFile is a file or directory that more users than its owner can access.
type openFile struct {
	path string
	mode fs.FileMode
}

// openNames names the first files.
func openNames(list []openFile) string {
	const most = 3
	var names []string
	for _, f := range list[:min(len(list), most)] {
		names = append(names, fmt.Sprintf("%s (mode %#o)", f.path, f.mode.Perm()))
	}
	text := strings.Join(names, ", ")
	if more := len(list) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// openToUsers lists files that other users can access. Links are not followed, since their targets
// are not in the directory. In a private directory, files of other names than perigee's are not
// checked: their modes may be intended.
func openToUsers(ctx context.Context, dir string) (open []openFile, err error) {
	walked := 0
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if walked++; walked > maxWalked {
			return fs.SkipAll
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist): // removed concurrently
			return nil
		case err != nil:
			return err
		}
		below, _ := filepath.Rel(dir, path)
		first, _, _ := strings.Cut(filepath.ToSlash(below), "/")
		switch {
		case entry.IsDir() && entry.Name() == "home" && first == "langserver":
			return fs.SkipDir
		case below != "." && !datadir.Ours(first):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.Type()&(fs.ModeSymlink|fs.ModeSocket) != 0:
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			open = append(open, openFile{path, info.Mode()})
		}
		return nil
	})
	return open, err
}

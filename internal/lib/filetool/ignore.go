package filetool

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

const maxIgnoreFile = 1 << 20 // bytes of an ignore file that are read

// ignoresIn adds the ignore files of a directory to the rules of its parent. path is the path of
// the directory from the root, has reports whether there may be a file of a name in it.
func ignoresIn(above *ignoreRules, dir *os.Root, path string, has func(string) bool) (*ignoreRules, error) {
	rules := &ignoreRules{above: above}
	if path != "" {
		rules.offset = len(path) + 1
	}
	var errs []error
	load := func(file string) []rule {
		text, err := loadIgnore(dir, file)
		errs = append(errs, err)
		return parse(text)
	}
	if has(".ignore") {
		rules.own = load(".ignore")
	}
	if has(".gitignore") {
		rules.git = load(".gitignore")
	}
	if has(".git") {
		if info, err := dir.Lstat(".git"); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			if rules.repository = true; info.IsDir() {
				rules.exclude = load(".git/info/exclude")
			}
		}
	}
	if len(rules.own) == 0 && len(rules.git) == 0 && !rules.repository {
		rules = above
	}
	return rules, errors.Join(errs...)
}

// loadIgnore reads an ignore file. Like git, it does not follow links.
func loadIgnore(dir *os.Root, file string) (string, error) {
	info, err := dir.Lstat(file)
	if err != nil || !info.Mode().IsRegular() {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			err = nil
		}
		return "", err
	}
	f, err := dir.OpenFile(file, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	if opened, err := f.Stat(); err != nil || !os.SameFile(opened, info) || !opened.Mode().IsRegular() {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	return string(text), err
}

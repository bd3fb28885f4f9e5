package dist

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/lib/atomicfile"
	"perigee/internal/lib/lazyregexp"
)

// EnvironmentFile returns the file with the variables of the service of a user.
func (h *Host) EnvironmentFile() string {
	if h.ConfigHome != "" && h.OS == "linux" {
		return filepath.Join(h.ConfigHome, "perigee/environment")
	}
	return filepath.Join(h.Home, ".config/perigee/environment")
}

var assignment = lazyregexp.New(`(?m)^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=`)

// MissingVariables returns the names that a file of variables does not have.
func MissingVariables(file string, names []string) (missing []string, err error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var known []string
	for _, found := range assignment().FindAllStringSubmatch(string(text), -1) {
		known = append(known, found[1])
	}
	for _, name := range names {
		if !slices.Contains(known, name) && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// AddVariables adds variables of this process to a file, which only its owner can read. A file that
// the user has not written or changed is marked, so that remove removes it.
func AddVariables(file string, names []string) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	own := len(text) == 0 || unchanged(string(text))
	if own {
		text = unmarked(text)
	}
	if len(text) > 0 && !strings.HasSuffix(string(text), "\n") {
		text = append(text, '\n')
	}
	for _, name := range names {
		value := os.Getenv(name)
		if strings.ContainsAny(value, "\n\r\x00") {
			return fmt.Errorf("the value of %s has more than one line", name)
		}
		text = fmt.Appendf(text, "%s=%s\n", name, environmentValue(value))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if own {
		text = []byte(marked(string(text)))
	}
	return atomicfile.Write(file, text)
}

// environmentValue returns a value as systemd and a shell read it.
func environmentValue(value string) string {
	if plainWord().MatchString(value) {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(value) + `"`
}

package seal

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"perigee"
)

// A key file is one line: these words and the key in base64.
const fileWords = "perigee seal key 1 "

// readKey reads a key file, and closes it to others if it was open to them.
func readKey(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text, ok := strings.CutPrefix(string(data), fileWords)
	raw, err := decodeKey(text)
	if !ok || err != nil {
		// A new key in its place would make what the old one sealed unreadable for good.
		return nil, perigee.Errorf(perigee.ClassInternal, "the key file %s is damaged", path).
			WithNext("bring it back from a backup, or move it away and %s", signInAgain)
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		err = os.Chmod(path, 0o600)
	}
	return raw, err
}

func decodeKey(text string) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err == nil && len(raw) != keySize {
		err = fmt.Errorf("%d bytes", len(raw))
	}
	return raw, err
}

// writeKey makes a key file that is there whole or not at all, and never in the place of another.
func writeKey(path string, raw []byte) (err error) {
	dir := filepath.Dir(path)
	temporary, err := os.CreateTemp(dir, fileName+".*.tmp") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // it goes on under its own name, if at all
	_, err = fmt.Fprintln(temporary, fileWords+base64.StdEncoding.EncodeToString(raw))
	if err == nil {
		err = temporary.Sync()
	}
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = publish(temporary.Name(), path)
	}
	if err == nil {
		err = syncDir(dir)
	}
	return err
}

// publish gives a file its name unless another has it. Not every file system can give a file a second name; the lock
// keeps others out all the same.
func publish(temporary, path string) error {
	err := os.Link(temporary, path)
	if err == nil || os.IsExist(err) {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return os.ErrExist
	}
	return os.Rename(temporary, path)
}

// syncDir makes a new name last.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

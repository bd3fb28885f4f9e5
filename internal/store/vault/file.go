package vault

import (
	"encoding/base64"
	"fmt"
	"os"
	"runtime"
	"strings"

	"perigee"
	"perigee/internal/lib/atomicfile"
)

// A key file is one line: these words and the key in base64.
const fileWords = "perigee seal key 1 "

// readKey reads a key file, and restricts its mode to 0600 if it was wider.
func readKey(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text, ok := strings.CutPrefix(string(data), fileWords)
	raw, err := decodeKey(text)
	if !ok || err != nil {
		// A new key in its place would make everything sealed with the old one unreadable for good.
		return nil, perigee.Errorf(perigee.ClassInternal, "the key file %s is damaged", path).
			WithHint("bring it back from a backup, or move it away and %s", signInAgain)
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

// writeKey makes a key file, never in the place of another.
func writeKey(path string, raw []byte) error {
	return atomicfile.Create(path, []byte(fileWords+base64.StdEncoding.EncodeToString(raw)+"\n"))
}

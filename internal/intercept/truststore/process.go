package truststore

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Processes returns the IDs of running processes that were started with a file of a directory as
// their SSL_CERT_FILE: language servers that trust the CA. It works on Linux only, and finds
// processes of other users for root only.
func Processes(dir string) (ids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	prefix := []byte("SSL_CERT_FILE=" + filepath.Clean(dir) + string(filepath.Separator))
	for _, entry := range entries {
		id, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		environment, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if err == nil && slices.ContainsFunc(bytes.Split(environment, []byte{0}), func(v []byte) bool { return bytes.HasPrefix(v, prefix) }) {
			ids = append(ids, id)
		}
	}
	return ids
}

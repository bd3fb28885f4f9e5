package probe

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/lib/atomicfile"
)

// entry returns the cache file of a binary, its arguments and its environment. A binary with other
// content has another entry.
func (o Options) entry(sum string) string {
	text := sum + "\x00" + strings.Join(o.Command[1:], "\x00")
	for _, name := range slices.Sorted(maps.Keys(o.Env)) {
		text += "\x00" + name + "=" + o.Env[name]
	}
	key := sha256.Sum256([]byte(text))
	return filepath.Join(o.Cache, hex.EncodeToString(key[:])+".json")
}

// cached returns the result of an earlier run. A damaged file counts as absent.
func (o Options) cached(sum string) (facts, bool) {
	if o.Cache == "" {
		return facts{}, false
	}
	text, err := os.ReadFile(o.entry(sum))
	if err != nil {
		return facts{}, false
	}
	var known facts
	if json.Unmarshal(text, &known) != nil || known.profile() == "" {
		return facts{}, false
	}
	return known, true
}

func (o Options) keep(sum string, known facts) error {
	if o.Cache == "" {
		return nil
	}
	text, err := json.Marshal(known)
	if err != nil {
		return err
	}
	if err = os.MkdirAll(o.Cache, 0o700); err == nil {
		err = atomicfile.Write(o.entry(sum), text)
	}
	if err != nil {
		return fmt.Errorf("keep what the probe found: %w", err)
	}
	return nil
}

// Known returns the result of an earlier run of a binary with the same content, without running
// it. found is false if the binary has to be run; the result then has only the properties of the
// file.
func (o Options) Known() (r Result, found bool, err error) {
	if r, err = o.inspect(); err != nil {
		return Result{}, false, err
	}
	known, found := o.cached(r.SHA256)
	r.Profile, r.Flags = known.profile(), known.Flags
	return r, found, nil
}

package datadir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"perigee"
	"perigee/internal/lib/atomicfile"
	"perigee/internal/lib/redact"
)

// An AdminToken gives access to the admin routes over TCP: 32 random bytes in a file that only the
// owner can read. When the file is deleted, a new token is made.
type AdminToken struct {
	path  string
	mu    sync.Mutex
	known atomic.Pointer[redact.Redactor] // of the token that was last read
}

// tokenMin is the least number of characters; a shorter token was not made by us, or is damaged.
const tokenMin = 32

// NewAdminToken returns the token of a data directory. Nothing is read yet.
func NewAdminToken(dir string) *AdminToken {
	return &AdminToken{path: filepath.Join(dir, tokenName)}
}

// Matches reports whether an offer is the token. The file is read each time.
func (a *AdminToken) Matches(offer string) (bool, error) {
	token, err := a.Read()
	if err != nil {
		return false, err
	}
	return token.Equal(offer), nil
}

// Read returns the token, and makes one where there is none.
func (a *AdminToken) Read() (perigee.Secret, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch info, err := os.Lstat(a.path); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return perigee.Secret{}, err
	case !info.Mode().IsRegular() || !Owned(info): // another user may know the token
		return perigee.Secret{}, fmt.Errorf("%s is not a file of our own; remove it", a.path)
	}
	raw, err := os.ReadFile(a.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return perigee.Secret{}, err
	}
	if token := strings.TrimSpace(string(raw)); len(token) >= tokenMin {
		return a.remember(token), a.protect()
	}
	return a.make()
}

// protect removes the permissions of other users.
func (a *AdminToken) protect() error {
	info, err := os.Stat(a.path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	return os.Chmod(a.path, 0o600)
}

// make writes a new token.
func (a *AdminToken) make() (perigee.Secret, error) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	token := hex.EncodeToString(random)
	if err := atomicfile.Write(a.path, []byte(token+"\n")); err != nil {
		return perigee.Secret{}, err
	}
	return a.remember(token), nil
}

func (a *AdminToken) remember(token string) perigee.Secret {
	secret := perigee.NewSecret(token)
	a.known.Store(redact.New(secret))
	return secret
}

// Reload reads the token that is in the file now, for Redact. It makes no token.
func (a *AdminToken) Reload() {
	if raw, err := os.ReadFile(a.path); err == nil {
		if token := strings.TrimSpace(string(raw)); len(token) >= tokenMin {
			a.remember(token)
		}
	}
}

// Redact replaces the token in a text.
func (a *AdminToken) Redact(text string) string { return a.known.Load().Text(text) }

package daemon

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
	"perigee/internal/config"
	"perigee/internal/ownfile"
)

// An adminToken is what opens the admin routes to who comes over TCP: 32 random bytes in a file that only the owner can
// read. Whoever deletes the file has a new one made.
type adminToken struct {
	path  string
	mu    sync.Mutex
	known atomic.Pointer[perigee.Redactor] // of the token as it was last read
}

const (
	adminTokenName = "admin.token"
	adminTokenMin  = 32 // characters; less was not made by us, or is damaged
)

func adminTokenOf(cfg *config.Config) *adminToken {
	return &adminToken{path: filepath.Join(cfg.DataDir, adminTokenName)}
}

// opens says whether an offer is the token. The file is looked at each time, so that it counts as it is now.
func (a *adminToken) opens(offer string) (bool, error) {
	token, err := a.read()
	if err != nil {
		return false, err
	}
	return token.Equal(offer), nil
}

// read returns the token, and makes one where there is none.
func (a *adminToken) read() (perigee.Secret, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch info, err := os.Lstat(a.path); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return perigee.Secret{}, err
	case !info.Mode().IsRegular() || !isOurs(info): // somebody else may know what is in it
		return perigee.Secret{}, fmt.Errorf("%s is not a file of our own; remove it", a.path)
	}
	raw, err := os.ReadFile(a.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return perigee.Secret{}, err
	}
	if token := strings.TrimSpace(string(raw)); len(token) >= adminTokenMin {
		return a.remember(token), a.protect()
	}
	return a.make()
}

// protect takes back what somebody allowed others.
func (a *adminToken) protect() error {
	info, err := os.Stat(a.path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	return os.Chmod(a.path, 0o600)
}

// make writes a new token.
func (a *adminToken) make() (perigee.Secret, error) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	token := hex.EncodeToString(random)
	if err := ownfile.WriteWhole(a.path, []byte(token+"\n")); err != nil {
		return perigee.Secret{}, err
	}
	return a.remember(token), nil
}

func (a *adminToken) remember(token string) perigee.Secret {
	secret := perigee.NewSecret(token)
	a.known.Store(perigee.NewRedactor(secret))
	return secret
}

// look has redact know the token that is in the file now. No token is made.
func (a *adminToken) look() {
	if raw, err := os.ReadFile(a.path); err == nil {
		if token := strings.TrimSpace(string(raw)); len(token) >= adminTokenMin {
			a.remember(token)
		}
	}
}

// redact replaces the token in a text.
func (a *adminToken) redact(text string) string { return a.known.Load().Redact(text) }

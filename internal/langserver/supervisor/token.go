package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"perigee"
	"perigee/internal/lib/atomicfile"
)

// tokenFile is the file below HOME from which a language server of profile hub reads its token.
const tokenFile = ".gemini/jetski-standalone-oauth-token"

// HideToken redacts an access token, and the one before it, in the output of the process.
func (s *Supervisor) HideToken(access perigee.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if access != s.token {
		s.before, s.token = s.token, access
	}
}

// SetToken replaces the token file of profile hub. The file has no refresh token: the caller
// writes a new access token before this one expires. An empty token removes the file.
func (s *Supervisor) SetToken(access perigee.Secret, expiry time.Time) error {
	s.HideToken(access)
	path := filepath.Join(s.o.Home, filepath.FromSlash(tokenFile))
	if access.IsZero() {
		if err := s.removeToken(path); err != nil {
			return fmt.Errorf("remove the token of the language server: %w", err)
		}
		return nil
	}
	type token struct {
		Access string `json:"access_token"`
		Type   string `json:"token_type"`
		Expiry string `json:"expiry"`
	}
	text, err := json.Marshal(map[string]token{
		"token": {access.Reveal(), "Bearer", expiry.UTC().Format(time.RFC3339)},
	})
	if err == nil {
		err = s.writeToken(path, text)
	}
	if err != nil {
		return fmt.Errorf("write the token of the language server: %w", err)
	}
	return nil
}

func (s *Supervisor) removeToken(path string) error {
	if s.o.User != nil {
		_, err := s.o.User.Run(context.Background(), nil, `rm -f -- "$1"`, path)
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s *Supervisor) writeToken(path string, text []byte) error {
	if s.o.User != nil {
		_, err := s.o.User.Run(context.Background(), text, `mkdir -p -- "${1%/*}" && cat >"$1.new" && mv -f -- "$1.new" "$1"`, path)
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(path, text)
}

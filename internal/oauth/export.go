package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"perigee"
)

// exported is an account in a file of FormatAccounts.
type exported struct {
	Email     string     `json:"email"`
	Refresh   string     `json:"refresh_token"` // in clear: that is what the file is for
	ProjectID string     `json:"project_id,omitempty"`
	Enabled   bool       `json:"enabled"`
	Added     *time.Time `json:"added_at,omitempty"`
}

// Export writes accounts to a file of FormatAccounts, which only the user can read (0600), in place of what was there;
// the file is there whole or not at all. Accounts without a refresh token are left out, and their emails returned; when
// none is left nothing is written. active may be empty.
func Export(path string, list []perigee.SignIn, active string) (skipped []string, err error) {
	document := struct {
		Accounts []exported `json:"accounts"`
		Active   string     `json:"active,omitempty"`
	}{Active: active}
	for _, s := range list {
		if s.Refresh.IsZero() {
			skipped = append(skipped, s.Email)
			continue
		}
		account := exported{Email: s.Email, Refresh: s.Refresh.Reveal(), ProjectID: s.ProjectID, Enabled: s.Enabled}
		if !s.Added.IsZero() {
			added := s.Added.UTC()
			account.Added = &added
		}
		document.Accounts = append(document.Accounts, account)
	}
	if len(document.Accounts) == 0 {
		return skipped, perigee.Errorf(perigee.ClassNotFound, "there are no accounts to export").WithNext("sign in with `perigee login`")
	}
	data, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := writeWhole(path, append(data, '\n')); err != nil {
		return nil, perigee.Errorf(perigee.ClassInvalid, "export: %w", err).WithNext("choose a place that can be written to")
	}
	return skipped, nil
}

// writeWhole writes a file for the user alone, and leaves nothing behind when it cannot.
func writeWhole(path string, data []byte) (err error) {
	// A device or a pipe would be replaced by the file.
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is there and is no file", path)
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp") // 0600
	if err != nil {
		return err
	}
	_, err = temporary.Write(data)
	if err == nil {
		err = temporary.Sync()
	}
	err = errors.Join(err, temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
		return err
	}
	return syncDir(filepath.Dir(path))
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
	return errors.Join(d.Sync(), d.Close())
}

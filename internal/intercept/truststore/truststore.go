// Package truststore adds the certificate of a certificate authority to the trust stores of a
// machine, finds it there and removes it: the store of the system, and the NSS databases of
// browsers. A certificate is found by its content, never by its name. Each change is followed by a
// check of the files that programs read.
package truststore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// The kinds of stores.
const (
	System = "system" // most programs
	NSS    = "nss"    // Firefox, and Chromium on Linux
)

// A State is the extent to which a store trusts a certificate.
type State int

// The states.
const (
	Absent  State = iota // no file has the certificate
	Partial              // some files have it; an installation or a removal was interrupted
	Trusted              // all files have it
)

// A Machine is the system on which stores are searched for.
type Machine struct {
	OS   string // as in runtime.GOOS
	Root string // prefix of the files of the system; empty for the system itself
	Home string // home directory of the NSS databases' user

	Held *os.File // the lock of Lock, for tools to inherit; may be nil
}

// Host returns the machine that the process runs on.
func Host() Machine {
	home, _ := os.UserHomeDir() // without one there are no databases
	return Machine{OS: runtime.GOOS, Home: home}
}

// A Store is one place with trusted certificates.
type Store struct {
	Kind string // System or NSS
	Path string // a directory, database or keychain
	backend
}

// A backend implements a store with its files and tools.
type backend interface {
	// ready returns an error if a tool is missing.
	ready() error
	state(ctx context.Context, c *x509.Certificate) (State, error)
	// change adds a certificate, which is also in a file, or removes it if file is empty. It can be
	// repeated after an interruption.
	change(ctx context.Context, c *x509.Certificate, file string) error
	// commands returns shell commands with the same effect.
	commands(c *x509.Certificate, file string) [][]string
	// list returns certificates of the store, in any order, with all that perigee made.
	list(ctx context.Context) ([]*x509.Certificate, error)
}

// Stores returns the stores of a kind, or all for the empty kind. NSS has one for each database.
func (m Machine) Stores(kind string) (stores []*Store) {
	if kind != NSS {
		if b, path := m.system(); b != nil {
			stores = append(stores, &Store{System, path, b})
		}
	}
	if kind != System {
		for _, dir := range m.databases() {
			stores = append(stores, &Store{NSS, dir, &database{m, dir}})
		}
	}
	return stores
}

// Ready returns the stores of a kind, and an error with the next step if there is none or if a tool
// is missing.
func (m Machine) Ready(kind string) ([]*Store, error) {
	stores := m.Stores(kind)
	for _, s := range stores {
		if err := s.ready(); err != nil {
			return nil, err
		}
	}
	switch {
	case len(stores) > 0:
		return stores, nil
	case kind == NSS:
		return nil, fmt.Errorf("there is no NSS database in %s; start Firefox or Chromium once, which creates it", m.Home)
	}
	return nil, errors.New("the trust store of this system is not supported: it has none of the directories " + knownDirs() +
		"; set SSL_CERT_FILE to bundle.pem beside the CA for single programs instead")
}

func (m Machine) system() (b backend, path string) {
	switch m.OS {
	case "darwin":
		return &keychain{m}, systemKeychain
	case "windows":
		return &rootStore{m}, `LocalMachine\Root`
	}
	if a := m.anchors(); a != nil {
		return a, m.at(a.dir)
	}
	return nil, ""
}

// at returns the path of a file of the system.
func (m Machine) at(path string) string { return filepath.Join(m.Root, path) }

// State returns the extent to which the store trusts a certificate.
func (s *Store) State(ctx context.Context, c *x509.Certificate) (State, error) {
	state, err := s.state(ctx, c)
	if err != nil {
		return state, fmt.Errorf("%s: %w", s.Path, err)
	}
	return state, nil
}

// Install adds a certificate, which is also in a file. If it returns nil, the store was read again
// and trusts it.
func (s *Store) Install(ctx context.Context, c *x509.Certificate, file string) error {
	if err := s.change(ctx, c, file); err != nil {
		return err
	}
	switch state, err := s.State(ctx, c); {
	case err != nil:
		return err
	case state != Trusted:
		return fmt.Errorf("%s: the certificate was added, but is not trusted afterwards; perigee ca remove undoes it", s.Path)
	}
	return nil
}

// Remove removes a certificate, and reports whether the store had it. If the error is nil, the
// store was read again and no file has it.
func (s *Store) Remove(ctx context.Context, c *x509.Certificate) (had bool, err error) {
	if state, err := s.State(ctx, c); err != nil || state == Absent {
		return false, err
	}
	if err := s.change(ctx, c, ""); err != nil {
		return true, err
	}
	switch state, err := s.State(ctx, c); {
	case err != nil:
		return true, err
	case state != Absent:
		return true, fmt.Errorf("%s: the certificate %s is still there after its removal; remove it with %s", s.Path, ID(c),
			s.RemoveLine(c))
	}
	return true, nil
}

// InstallLine returns a shell command that adds the certificate in a file.
func (s *Store) InstallLine(c *x509.Certificate, file string) string {
	return shellLine(s.commands(c, file), s.needsRoot())
}

// RemoveLine returns a shell command that removes the certificate.
func (s *Store) RemoveLine(c *x509.Certificate) string {
	return shellLine(s.commands(c, ""), s.needsRoot())
}

func (s *Store) needsRoot() bool {
	_, nss := s.backend.(*database)
	return !nss
}

// A Leftover is a certificate of perigee in a store, without the CA that it belongs to.
type Leftover struct {
	Store       *Store
	Certificate *x509.Certificate
}

// Leftovers returns the certificates in all stores that perigee made and that are not the CA of one
// of the directories.
func (m Machine) Leftovers(ctx context.Context, dirs ...string) (found []Leftover, err error) {
	var known []*x509.Certificate
	for _, dir := range dirs {
		for _, path := range []string{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "mitm", "ca.pem")} {
			if text, err := os.ReadFile(path); err == nil {
				known = append(known, certificates(text)...)
			}
		}
	}
	var failed []error
	for _, s := range m.Stores("") {
		all, err := s.list(ctx)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.Path, err))
		}
		var seen []*x509.Certificate
		for _, c := range all {
			if isOurs(c) && !slices.ContainsFunc(known, c.Equal) && !slices.ContainsFunc(seen, c.Equal) {
				seen = append(seen, c)
				found = append(found, Leftover{s, c})
			}
		}
	}
	return found, errors.Join(failed...)
}

// ID returns the first 8 hex digits of a certificate's fingerprint, for file names and messages.
func ID(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return fmt.Sprintf("%X", sum[:4])
}

// isOurs reports whether perigee made a certificate.
func isOurs(c *x509.Certificate) bool {
	return c.IsCA && slices.Contains(c.Subject.Organization, "perigee") && strings.HasPrefix(c.Subject.CommonName, "perigee ")
}

// hasCertificate reports whether a file has a certificate: in PEM, also with OpenSSL's trust
// settings after it, or in DER inside a keystore.
func hasCertificate(text []byte, c *x509.Certificate) bool {
	return bytes.Contains(text, c.Raw) || slices.ContainsFunc(blocks(text), func(der []byte) bool { return bytes.HasPrefix(der, c.Raw) })
}

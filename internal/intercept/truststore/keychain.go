package truststore

import (
	"context"
	"crypto/sha1" // names certificates in the tools of macOS and Windows
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

const systemKeychain = "/Library/Keychains/System.keychain"

// keychain is the system keychain of macOS. It follows the documentation of its tool and is
// untested.
type keychain struct{ machine Machine }

func (k *keychain) ready() error {
	_, err := find("security")
	return err
}

func (k *keychain) commands(c *x509.Certificate, file string) [][]string {
	if file != "" {
		return [][]string{{"security", "add-trusted-cert", "-d", "-r", "trustRoot", "-p", "ssl", "-k", systemKeychain, file}}
	}
	// -t also removes its trust settings.
	return [][]string{{"security", "delete-certificate", "-Z", thumbprint(c), "-t", systemKeychain}}
}

func (k *keychain) change(ctx context.Context, c *x509.Certificate, file string) error {
	commands := k.commands(c, file)
	_, err := k.machine.run(ctx, nil, commands[0]...)
	return asRoot(err, commands)
}

func (k *keychain) state(ctx context.Context, c *x509.Certificate) (state State, err error) {
	all, err := k.list(ctx)
	if err != nil || !slices.ContainsFunc(all, c.Equal) {
		return Absent, err
	}
	err = withFile(c, func(file string) error {
		if _, err := k.machine.run(ctx, nil, "security", "verify-cert", "-l", "-L", "-p", "ssl", "-c", file); err == nil {
			state = Trusted
		} else {
			state = Partial
		}
		return nil
	})
	return state, err
}

func (k *keychain) list(ctx context.Context) ([]*x509.Certificate, error) {
	text, err := k.machine.run(ctx, nil, "security", "find-certificate", "-a", "-p", systemKeychain)
	return certificates([]byte(text)), err
}

// rootStore is the store of root certificates of Windows, for all users. It follows the
// documentation of its tool and is untested.
type rootStore struct{ machine Machine }

func (r *rootStore) ready() error {
	_, err := find("certutil")
	return err
}

func (r *rootStore) commands(c *x509.Certificate, file string) [][]string {
	if file != "" {
		return [][]string{{"certutil", "-f", "-addstore", "Root", file}}
	}
	return [][]string{{"certutil", "-delstore", "Root", thumbprint(c)}}
}

func (r *rootStore) change(ctx context.Context, c *x509.Certificate, file string) error {
	_, err := r.machine.run(ctx, nil, r.commands(c, file)[0]...)
	if err != nil {
		err = fmt.Errorf("%w; this needs the rights of an administrator: run this command again in a terminal of one", err)
	}
	return err
}

// state makes the tool write the certificate with the thumbprint, if there is one, to a file.
func (r *rootStore) state(ctx context.Context, c *x509.Certificate) (state State, err error) {
	err = withFile(c, func(file string) error {
		out := file + ".found"
		if _, err := r.machine.run(ctx, nil, "certutil", "-store", "Root", thumbprint(c), out); err != nil {
			if isExit(err) {
				return nil // it is not there
			}
			return err
		}
		if text, err := os.ReadFile(out); err == nil && hasCertificate(text, c) {
			state = Trusted
		}
		return nil
	})
	return state, err
}

// list returns nothing: the tool describes certificates in the language of the system only.
func (r *rootStore) list(context.Context) ([]*x509.Certificate, error) { return nil, nil }

// thumbprint identifies a certificate for the tools of macOS and Windows.
func thumbprint(c *x509.Certificate) string {
	return fmt.Sprintf("%X", sha1.Sum(c.Raw))
}

// withFile calls a function with a file that has a certificate, and removes its directory
// afterwards.
func withFile(c *x509.Certificate, use func(file string) error) error {
	dir, err := os.MkdirTemp("", "perigee-ca-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, encode(c), 0o600); err != nil {
		return err
	}
	return use(file)
}

package truststore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perigee/internal/lib/atomicfile"
)

// recordName is the file next to a CA with the certificates that were installed from there.
// Without it the certificate of an earlier CA, which was replaced since, could not be found again.
const recordName = "installed.pem"

// Recorded returns the certificates that were to be installed from a directory, including
// interrupted installations.
func Recorded(dir string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(filepath.Join(dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return certificates(text), err
}

// Record adds a certificate to the record of a directory. It has to be called before the
// certificate is installed.
func Record(dir string, c *x509.Certificate) error {
	known, err := Recorded(dir)
	if err != nil || slices.ContainsFunc(known, c.Equal) {
		return err
	}
	return writeRecord(dir, append(known, c))
}

// Forget removes a certificate from the record of a directory, when no store has it any more.
func Forget(dir string, c *x509.Certificate) error {
	known, err := Recorded(dir)
	if err != nil || !slices.ContainsFunc(known, c.Equal) {
		return err
	}
	return writeRecord(dir, slices.DeleteFunc(known, c.Equal))
}

func writeRecord(dir string, all []*x509.Certificate) error {
	var text bytes.Buffer
	for _, c := range all {
		text.Write(encode(c))
	}
	path := filepath.Join(dir, recordName)
	if err := atomicfile.Write(path, text.Bytes()); err != nil {
		return err
	}
	return keepOwner(dir, path)
}

// Lock keeps other processes from changing trust for the CA of a directory, until the caller
// closes the file. It creates the directory.
func Lock(ctx context.Context, dir string) (*os.File, error) {
	for {
		if err := errors.Join(ctx.Err(), os.MkdirAll(dir, 0o700)); err != nil {
			return nil, err
		}
		path := filepath.Join(dir, "install.lock")
		f, err := atomicfile.Lock(ctx, path, lockTime)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // the directory was removed again
		case errors.Is(err, atomicfile.ErrHeld):
			return nil, fmt.Errorf("another perigee ca command, or a tool that it started, works on %s; wait until it has ended", dir)
		case err != nil:
			return nil, err
		}
		// While this process waited, another may have removed the file together with the CA.
		held, err := f.Stat()
		if named, missing := os.Lstat(path); err == nil && missing == nil && os.SameFile(held, named) {
			_ = keepOwner(dir, path) // the lock holds without it
			return f, nil
		}
		_ = f.Close()
	}
}

// lockTime is how long Lock waits. A tool that updates the store takes seconds.
const lockTime = 30 * time.Second

// caFiles are the files of a CA in the order of their removal: the key first, and the certificates
// last, because they are needed to find copies in the stores.
var caFiles = []string{"ca.key", "bundle.pem", "ca.hosts", "ca.lock", "ca.pem", recordName, "install.lock"}

// OwnCertificates returns the certificates in the files of a directory that may be in a store: of
// the CA, of the CA for perigee mitm, and of earlier ones. Missing or damaged files have none.
func OwnCertificates(dir string) (found []*x509.Certificate, err error) {
	for _, name := range []string{"ca.pem", filepath.Join("mitm", "ca.pem"), recordName} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, c := range certificates(text) {
			if !slices.ContainsFunc(found, c.Equal) {
				found = append(found, c)
			}
		}
	}
	return found, nil
}

// RemoveFiles removes the files of the CA of a directory and of the CA for perigee mitm, and the
// directories if they are empty then. It returns the removed files, and the files that are kept
// because they do not belong to perigee.
func RemoveFiles(dir string) (removed, kept []string, err error) {
	for _, dir := range []string{filepath.Join(dir, "mitm"), dir} {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return removed, kept, err
		}
		slices.SortStableFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(order(a.Name()), order(b.Name())) })
		others := 0
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			if order(entry.Name()) < 0 || entry.IsDir() {
				others++
				if !entry.IsDir() || entry.Name() != "mitm" {
					kept = append(kept, path)
				}
				continue
			}
			if err := os.Remove(path); err != nil {
				return removed, kept, err
			}
			removed = append(removed, path)
		}
		if others == 0 {
			if err := os.Remove(dir); err != nil {
				return removed, kept, err
			}
			removed = append(removed, dir)
		}
	}
	return removed, kept, nil
}

// order returns the position of a file in caFiles, or -1 for other files. Temporary files of an
// interrupted write have the position of their file.
func order(name string) int {
	if base, ok := strings.CutSuffix(name, ".tmp"); ok && strings.HasPrefix(base, ".") {
		name = strings.TrimSuffix(base[1:], filepath.Ext(base))
	}
	return slices.Index(caFiles, name)
}

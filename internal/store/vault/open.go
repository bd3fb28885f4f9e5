package vault

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"perigee"
	"perigee/internal/lib/atomicfile"
)

// Options set where the key is.
type Options struct {
	Dir       string // the data directory; made if it is missing
	NoKeyring bool   // keep the key in a file, as PERIGEE_KEYRING=off in the environment does
	// Given is the key itself, for several machines that share sealed data: 32 bytes in base64, or
	// the line of a key file. Then no key is searched for or made.
	Given  perigee.Secret
	Logger *slog.Logger // nil discards all records

	ring ring // the operating system's if nil
}

// Variable turns the keyring off when it is set to "off".
const Variable = "PERIGEE_KEYRING"

const (
	fileName = "seal.key"
	lockName = "seal.lock"
)

// patience is how long one start waits for another that is making the key.
const patience = 10 * time.Second

// Open finds the key of a data directory, or makes it. A key file counts before the keyring: it is
// there because at some time there was no keyring to ask. Of several processes that start at once
// all get the same key.
//
// A key that was lost is replaced by a new one; opening a secret sealed with the lost one then
// fails with that reason. A key file that cannot be read is an error, and is not changed.
func Open(ctx context.Context, opts Options) (*Key, error) {
	if !opts.Given.IsZero() {
		return parseGiven(opts.Given)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.ring == nil {
		opts.ring = platformRing()
	}
	if os.Getenv(Variable) == "off" {
		opts.NoKeyring = true
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, keyError(err)
	}
	lock, err := atomicfile.Lock(ctx, filepath.Join(opts.Dir, lockName), patience)
	switch {
	case errors.Is(err, atomicfile.ErrHeld):
		return nil, perigee.Errorf(perigee.ClassUnavailable, "another perigee process holds the lock of the seal key: %w", err).WithHint("try again")
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, keyError(err)
	}
	defer func() { _ = lock.Close() }()
	return opts.find(ctx)
}

func (o *Options) find(ctx context.Context) (*Key, error) {
	path := filepath.Join(o.Dir, fileName)
	account, err := accountOf(o.Dir)
	if err != nil {
		return nil, keyError(err)
	}
	raw, err := readKey(path)
	switch {
	case err == nil:
		return o.inFile(raw, account)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, keyError(err)
	}
	if !o.NoKeyring {
		raw, err := ringKey(ctx, o.ring, account)
		if err == nil {
			return newKey(raw, placeKeyring)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		o.Logger.InfoContext(ctx, "seal key kept in a file: the keyring of the operating system cannot be used",
			"file", path, "error", err)
	}
	raw = make([]byte, keySize)
	_, _ = rand.Read(raw) // never fails
	if err := writeKey(path, raw); err != nil {
		return nil, keyError(err)
	}
	return o.inFile(raw, account)
}

// IsKey reports whether a text is a key that Options.Given takes.
func IsKey(text string) bool {
	_, err := decodeGiven(text)
	return err == nil
}

func decodeGiven(text string) ([]byte, error) {
	return decodeKey(strings.TrimPrefix(strings.TrimSpace(text), fileWords))
}

func parseGiven(given perigee.Secret) (*Key, error) {
	raw, err := decodeGiven(given.Reveal())
	if err != nil {
		return nil, perigee.Errorf(perigee.ClassInvalid, "the seal key is not 32 bytes in base64").
			WithHint("make one with `openssl rand -base64 32`, or use what is in a seal.key file")
	}
	return newKey(raw, placeConfig)
}

// inFile returns a key from the file. Secrets sealed before there was a file were sealed with the
// one in the keyring.
func (o *Options) inFile(raw []byte, account string) (*Key, error) {
	k, err := newKey(raw, placeFile)
	if err == nil && !o.NoKeyring {
		k.earlierKey = func() ([]byte, error) {
			raw, err := readRing(context.Background(), o.ring, account)
			if err != nil && !errors.Is(err, errGone) {
				err = fmt.Errorf("%w: %w", errLocked, err)
			}
			return raw, err
		}
	}
	return k, err
}

// accountOf names a data directory in the keyring, which is one for all of them.
func accountOf(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	sum := sha256.Sum256([]byte(abs))
	return hex.EncodeToString(sum[:16]), nil
}

func keyError(err error) error {
	if _, ok := errors.AsType[*perigee.Error](err); ok {
		return err
	}
	return perigee.Errorf(perigee.ClassUnavailable, "the key that seals sign-ins: %w", err).
		WithHint("make the data_dir and what is in it writable, or choose another one")
}

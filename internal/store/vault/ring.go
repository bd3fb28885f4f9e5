package vault

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/zalando/go-keyring"
)

// service is perigee's name in the keyring.
const service = "perigee"

// ringTime is how long the keyring may take: it may be waiting for a password.
const ringTime = 2 * time.Second

// A ring is a keyring. For a missing entry it returns keyring.ErrNotFound.
type ring interface {
	Get(account string) (string, error)
	Set(account, value string) error
}

type systemRing struct{}

func (systemRing) Get(account string) (string, error) { return keyring.Get(service, account) }
func (systemRing) Set(account, value string) error    { return keyring.Set(service, account, value) }

// noRing is used where there is no keyring.
type noRing struct{}

var errNoRing = errors.New("there is no session bus")

func (noRing) Get(string) (string, error) { return "", errNoRing }
func (noRing) Set(string, string) error   { return errNoRing }

// platformRing returns the keyring of this machine. Where it is reached over a session bus, there
// has to be one: asking all the same would start a bus of its own, which outlives us and has no
// keyring on it.
func platformRing() ring {
	switch runtime.GOOS {
	case "windows", "darwin":
		return systemRing{}
	}
	if address := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); address != "" && address != "autolaunch:" {
		return systemRing{}
	}
	for _, name := range []string{"bus", "dbus-session"} {
		if _, err := os.Stat(filepath.Join("/run/user", strconv.Itoa(os.Getuid()), name)); err == nil {
			return systemRing{}
		}
	}
	return noRing{}
}

// ringKey returns the key in the keyring, or makes it there. It reads back a key that it made:
// some keyrings do not store it.
func ringKey(ctx context.Context, r ring, account string) ([]byte, error) {
	raw, err := readRing(ctx, r, account)
	if !errors.Is(err, errGone) {
		return raw, err
	}
	made := make([]byte, keySize)
	_, _ = rand.Read(made) // never fails
	_, err = withinRingTime(ctx, func() (struct{}, error) {
		return struct{}{}, r.Set(account, base64.StdEncoding.EncodeToString(made))
	})
	if err != nil {
		return nil, err
	}
	raw, err = readRing(ctx, r, account)
	if err == nil && !bytes.Equal(raw, made) {
		err = errors.New("the keyring gives another key than it was given")
	}
	return raw, err
}

// readRing returns the key in the keyring. The error is errGone if it is not there; any other error
// leaves open whether it is.
func readRing(ctx context.Context, r ring, account string) ([]byte, error) {
	value, err := withinRingTime(ctx, func() (string, error) { return r.Get(account) })
	if errors.Is(err, keyring.ErrNotFound) {
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	raw, err := base64.StdEncoding.DecodeString(value)
	if err != nil || len(raw) != keySize {
		return nil, errors.New("it does not contain a key of perigee")
	}
	return raw, nil
}

// withinRingTime waits for the keyring as long as it may take. A keyring that hangs is left behind.
func withinRingTime[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, ringTime)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		value, err := ask()
		answered <- answer{value, err}
	}()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		var zero T
		return zero, fmt.Errorf("the keyring did not answer: %w", ctx.Err())
	}
}

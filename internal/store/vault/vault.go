// Package vault encrypts secrets at rest: a refresh token in a copied database or a backup is worth
// nothing without the key, and the key is in the keyring of the operating system, or in a file of
// its own where there is no keyring.
//
// It seals and opens, and finds or makes the key; it stores nothing that it has sealed. It does not
// protect against an attacker that can act as the user on a running machine. The daemon and the
// commands open the key once and give it to the store.
package vault

import (
	"cmp"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"perigee"
)

// A Key seals and opens. It may be used concurrently.
type Key struct {
	id    string
	aead  cipher.AEAD
	place string // placeKeyring, placeFile or placeConfig; empty for a key in older

	// earlierKey returns a key that may have sealed secrets earlier; nil if there is no such key.
	earlierKey func() ([]byte, error)

	mu       sync.Mutex
	older    map[string]cipher.AEAD // by id, keys from the other place
	askedAt  time.Time              // when the other place was asked last; zero if never
	otherErr error                  // and its error
}

// askAgain is how long an answer about other keys counts: there may be many sealed secrets, and
// asking may be slow.
const askAgain = 30 * time.Second

// The places where a key is stored.
const (
	placeKeyring = "keyring"
	placeFile    = "file"
	placeConfig  = "configuration"
)

const keySize = chacha20poly1305.KeySize

func newKey(raw []byte, place string) (*Key, error) {
	aead, err := chacha20poly1305.NewX(raw)
	if err != nil {
		return nil, err
	}
	return &Key{id: idOf(raw), aead: aead, place: place, older: map[string]cipher.AEAD{}}, nil
}

// idOf returns an identifier of a key from which the key cannot be derived.
func idOf(raw []byte) string {
	sum := sha256.Sum256(append([]byte("perigee seal key\x00"), raw...))
	return hex.EncodeToString(sum[:8])
}

// A sealed secret is version:key:nonce and ciphertext, in base64.
const version = "v1"

var encoding = base64.RawURLEncoding

// Seal seals a secret for an owner: the names of the object that it belongs to, such as the table
// and the key of its row. Sealing twice gives two different texts.
func (k *Key) Seal(plain perigee.Secret, owner ...string) (string, error) {
	box := make([]byte, k.aead.NonceSize(), k.aead.NonceSize()+len(plain.Reveal())+k.aead.Overhead())
	_, _ = rand.Read(box) // never fails
	box = k.aead.Seal(box, box, []byte(plain.Reveal()), bind(k.id, owner))
	return version + ":" + k.id + ":" + encoding.EncodeToString(box), nil
}

// Open opens a secret that was sealed for the same owner. The error distinguishes a key that is
// gone, so that only a new sign-in helps, a key that is unavailable at the moment, and stored text
// that was changed.
func (k *Key) Open(sealed string, owner ...string) (perigee.Secret, error) {
	v, rest, _ := strings.Cut(sealed, ":")
	id, text, found := strings.Cut(rest, ":")
	if v != version && found && strings.HasPrefix(v, "v") {
		return perigee.Secret{}, perigee.Errorf(perigee.ClassUnavailable, "%s was sealed by a newer perigee", name(owner)).
			WithHint("install that newer perigee, or %s", signInAgain)
	}
	box, err := encoding.DecodeString(text)
	if v != version || !found || err != nil || len(box) < chacha20poly1305.NonceSizeX {
		return perigee.Secret{}, errDamaged(owner)
	}
	aead, err := k.withID(id)
	if err != nil {
		return perigee.Secret{}, perigee.Errorf(perigee.ClassUnauthenticated, "the key that sealed %s %w", name(owner), err).
			WithHint("%s", adviceFor(err))
	}
	plain, err := aead.Open(nil, box[:aead.NonceSize()], box[aead.NonceSize():], bind(id, owner))
	if err != nil {
		return perigee.Secret{}, errDamaged(owner)
	}
	return perigee.NewSecret(string(plain)), nil
}

const signInAgain = "sign in again with `perigee login`"

var (
	errGone   = errors.New("is gone")
	errOther  = errors.New("is not the one in store.seal_key")
	errLocked = errors.New("may be in the keyring of the operating system, which does not answer")
)

func adviceFor(err error) string {
	if errors.Is(err, errOther) {
		return "set store.seal_key to the key that it was sealed with; do not sign in again with this one, which the other replicas do not have"
	}
	if errors.Is(err, errLocked) {
		return "unlock the keyring and try again, or " + signInAgain
	}
	return signInAgain
}

func errDamaged(owner []string) error {
	return perigee.Errorf(perigee.ClassInternal, "what is stored as %s was changed, or belongs to something else", name(owner)).
		WithHint("%s", signInAgain)
}

func name(owner []string) string { return strings.Join(owner, "/") }

// withID finds the key that sealed something: this one, or one from the place that is not in use at
// the moment.
func (k *Key) withID(id string) (cipher.AEAD, error) {
	if id == k.id {
		return k.aead, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if aead := k.older[id]; aead != nil {
		return aead, nil
	}
	if k.place == placeConfig {
		return nil, errOther
	}
	if k.earlierKey == nil {
		return nil, errGone
	}
	if k.askedAt.IsZero() || time.Since(k.askedAt) >= askAgain {
		k.otherErr = k.readEarlierKey()
		k.askedAt = time.Now()
	}
	if aead := k.older[id]; aead != nil {
		return aead, nil
	}
	return nil, cmp.Or(k.otherErr, errGone)
}

// readEarlierKey adds the key in the keyring to older. The lock is held.
func (k *Key) readEarlierKey() error {
	raw, err := k.earlierKey()
	if err != nil {
		return err
	}
	other, err := newKey(raw, "")
	if err == nil {
		k.older[other.id] = other.aead
	}
	return err
}

// bind encodes the owner of a secret so that no two owners have the same encoding, whatever
// characters their names have.
func bind(id string, owner []string) []byte {
	bound := []byte(version + ":" + id + ":")
	for _, part := range owner {
		bound = binary.AppendUvarint(bound, uint64(len(part)))
		bound = append(bound, part...)
	}
	return bound
}

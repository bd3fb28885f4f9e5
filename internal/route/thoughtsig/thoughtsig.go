// Package thoughtsig keeps thought signatures for clients that lose them. A provider signs its
// thinking, and requires each signature back with the part that it signed; most clients of other
// APIs have no field for it. A Memory remembers each signature by the id of the call, or by the
// text, that it came with; a Keeper wraps an upstream and restores it. The daemon wraps every
// upstream, behind routing, with the same Memory.
//
// Claude signs the thinking itself, so for its models the signed thinking of an answer is also
// remembered, by the id of each call that followed it. During the model's turn, a request that has
// the call without the thinking gets it back at the beginning of that step. Thinking that the
// client kept unchanged stays; if the client has altered it, or lost the signature, it is replaced.
//
// Clients are kept apart: an entry under an id or a text is found only with the key that the client
// presented when it was remembered. Short texts, and ids that may be counted from one, are also
// bound to their conversation: to its first system instruction and the user's first texts. Unique
// ids are not, so that clients may shorten a conversation from its beginning. Models get only
// signatures of their own kind.
//
// Requests that are passed on verbatim in the provider's own dialect are not changed: their clients
// have a field for the signature. Package adapt decides what replaces a signature that is not
// remembered.
package thoughtsig

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"time"

	"perigee"
	"perigee/internal/store/batchwriter"
)

// Options are the limits of a Memory. Zero values mean defaults.
type Options struct {
	MaxBytes int // of memory; 0 means 16 MiB
	MaxCount int // of entries in memory; 0 means 100,000
	// Shared is set if other processes use the same store, and may get the next request of a
	// conversation.
	Shared bool
	Now    func() time.Time
	Logger *slog.Logger
}

// DefaultKeep is how long signatures are kept after their last use.
const DefaultKeep = 48 * time.Hour

const (
	defaultBytes = 16 << 20
	defaultCount = 100_000

	// absentTime is how long a key that the store does not have is not looked up again. Another
	// process may write to the store.
	absentTime = 5 * time.Minute
	// absentTimeShared is absentTime for a shared store.
	absentTimeShared = 2 * time.Second
	// findTime bounds how long a request waits for the store. Without an answer nothing is
	// restored.
	findTime = time.Second
	// failedTime is how long a mark is not looked up again in a store that has failed.
	failedTime = 10 * time.Second
	// flushTime bounds how long the end of an answer waits for the store, where another process may
	// get the next request.
	flushTime = 500 * time.Millisecond
)

// A Memory remembers signatures: the latest in memory, and all of them in a store where there is
// one. It is safe for concurrent use.
type Memory struct {
	opts   Options
	cache  *cache
	sums   sumCache
	store  perigee.SignatureStore
	writer *batchwriter.Writer[string, perigee.Signature] // nil if there is no store
}

const (
	linger     = 50 * time.Millisecond // before a batch is written
	maxQueue   = 10_000                // signatures that wait while the store fails
	maxWaiting = 16 << 20              // bytes of them
)

// NewMemory returns an empty memory.
func NewMemory(opts Options) *Memory {
	opts.MaxBytes = cmp.Or(opts.MaxBytes, defaultBytes)
	opts.MaxCount = cmp.Or(opts.MaxCount, defaultCount)
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Memory{opts: opts, cache: newCache(opts.MaxBytes, opts.MaxCount), sums: sumCache{seed: maphash.MakeSeed()}}
}

// KeepIn makes the memory write signatures to a store as well. It must be called at most once,
// before the memory is used. The caller must then close the memory before the store.
func (m *Memory) KeepIn(store perigee.SignatureStore) {
	m.store = store
	gather := linger
	if m.opts.Shared {
		gather = 0 // another process may get the next request of the conversation at once
	}
	m.writer = batchwriter.New[string](batchwriter.Options[perigee.Signature]{
		Rows: "thought signatures", Linger: gather, MaxRows: maxQueue, MaxBytes: maxWaiting, Size: size,
		Save: store.SaveSignatures, Logger: m.opts.Logger,
	})
}

// Close writes the signatures that are not in the store yet. While the store fails it retries until
// ctx ends.
func (m *Memory) Close(ctx context.Context) error {
	if m.writer == nil {
		return nil
	}
	if missing, err := m.writer.Close(ctx); err != nil {
		return perigee.Errorf(perigee.ClassUnavailable, "%d thought signatures were not stored: %w", missing, err)
	}
	return nil
}

// flush waits, where the store is shared, until other processes can find the signatures of an
// answer: the client may send its next request to one of them. It does not wait for a store that
// fails.
func (m *Memory) flush(ctx context.Context) {
	if m.writer == nil || !m.opts.Shared || m.writer.Failure() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	m.writer.Flush(ctx)
}

// put remembers a signature under a key, unless the key is empty.
func (m *Memory) put(key, value, kind string) {
	if key == "" {
		return
	}
	s := perigee.Signature{Key: key, Value: value, Kind: kind, Expires: m.opts.Now().Add(DefaultKeep)}
	m.cache.put(s)
	if m.writer != nil {
		m.writer.Put(key, s)
	}
}

// remember stores a signature under a key, and its kind under the key of the signature itself.
func (m *Memory) remember(key, value, kind string) {
	m.put(key, value, kind)
	m.put(signatureKey(value), "", kind)
}

// foreign returns which of the signatures are known to be of another kind.
func (m *Memory) foreign(ctx context.Context, signatures []string, kind string) map[string]bool {
	keys := make([]string, len(signatures))
	for i, s := range signatures {
		keys[i] = signatureKey(s)
	}
	known := m.find(ctx, keys)
	list := map[string]bool{}
	for i, s := range signatures {
		if found := known[keys[i]]; found != nil && found.Kind != kind {
			list[s] = true
		}
	}
	return list
}

// entries are the known signatures by key. They are never modified.
type entries map[string]*perigee.Signature

// find looks up the keys in memory, and the missing ones in the store with one query.
func (m *Memory) find(ctx context.Context, keys []string) entries {
	now := m.opts.Now()
	result := entries{}
	var missing []string
	for _, key := range keys {
		switch s, ok := m.cache.get(key, now); {
		case !ok:
			missing = append(missing, key)
		case s.Kind != "":
			found := s // a copy, so that only an entry that is found is allocated
			result[key] = &found
		}
	}
	if m.store != nil && len(missing) > 0 {
		m.load(ctx, missing, result, now)
	}
	m.renew(result, now)
	return result
}

// marked reports whether there is an entry under a key. Requests for which that alone is looked up
// do not each wait for a store that fails.
func (m *Memory) marked(ctx context.Context, key string) bool {
	if m.find(ctx, []string{key})[key] != nil {
		return true
	}
	now := m.opts.Now()
	if _, answered := m.cache.get(key, now); !answered && ctx.Err() == nil {
		m.cache.put(perigee.Signature{Key: key, Expires: now.Add(failedTime)})
	}
	return false
}

func (m *Memory) load(ctx context.Context, keys []string, result entries, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	stored, err := m.store.FindSignatures(ctx, keys)
	if err != nil {
		m.opts.Logger.Warn("thought signatures cannot be read", "error", err)
		return
	}
	absent := absentTime
	if m.opts.Shared {
		absent = absentTimeShared
	}
	for i := range stored {
		m.cache.put(stored[i])
		result[stored[i].Key] = &stored[i]
	}
	for _, key := range keys {
		if _, ok := result[key]; !ok {
			m.cache.put(perigee.Signature{Key: key, Expires: now.Add(absent)})
		}
	}
}

// renew extends the expiry of signatures that a conversation uses.
func (m *Memory) renew(result entries, now time.Time) {
	for _, s := range result {
		if s.Expires.Sub(now) < DefaultKeep/2 {
			m.put(s.Key, s.Value, s.Kind)
		}
	}
}

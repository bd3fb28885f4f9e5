// Package signature keeps the seals that providers put on their thinking. A provider wants a seal back with the part
// that it came on, and most clients of other APIs have no place for it: they lose it, and with it the model's train of
// thought. A Memory remembers each seal by the id of the call, or by the text, that it came with; a Keeper is an
// Upstream around an upstream that gives it back. The daemon puts one around every upstream, behind routing, all with
// the same Memory.
//
// Claude seals the thinking itself, so for its models the sealed thinking of an answer is remembered, too, by the id of
// each call that came of it. While the model's turn goes on, a request that brings the call without the thinking gets it
// back at the beginning of that step. Thinking that the client kept as it was stays; what it has altered, or lost the
// seal of, makes place.
//
// Nobody gets what another has: what is remembered by id or text is found again only with the key that the client
// presented when it was remembered. Texts that are short and ids that may be counted from one are, beyond that, bound to
// their conversation, that is to its first system instruction and the user's first words. Ids that are certain to be one
// of a kind are not, so that clients may shorten a conversation from its beginning. Models get only what comes from
// models of their kind.
//
// Requests in the provider's own dialect pass untouched where they go on as they came: their clients have a place for the
// seal, and know best. What a provider demands in place of a seal that nobody remembers is not decided here.
package signature

import (
	"context"
	"log/slog"
	"time"

	"perigee"
	"perigee/internal/batch"
)

// Options say how much is remembered. Zero values mean defaults.
type Options struct {
	Keep     time.Duration // how long after its last use; 0: 48 hours
	MaxBytes int           // of memory; 0: 16 MiB
	MaxCount int           // of entries in memory; 0: 100,000
	// Shared says that others write to the same store, who may be asked next about what is remembered here.
	Shared bool
	Now    func() time.Time
	Logger *slog.Logger
}

// DefaultKeep is how long signatures are kept.
const DefaultKeep = 48 * time.Hour

const (
	defaultBytes = 16 << 20
	defaultCount = 100_000

	// forget is how long it is believed that the store has not got something: another process may write to it.
	forget = 5 * time.Minute
	// forgetShared is the same where another process certainly does.
	forgetShared = 2 * time.Second
	// findTime bounds how long a request waits for the store. Without an answer it goes on as it came.
	findTime = time.Second
	// settleTime bounds how long the end of an answer waits for the store, where others may be asked next.
	settleTime = 500 * time.Millisecond
)

// A Memory remembers signatures: the latest in memory, and all of them in a store where there is one. It is safe for
// concurrent use.
type Memory struct {
	opts   Options
	cache  cache
	store  perigee.SignatureStore
	queue  queue
	writer *batch.Writer[[]perigee.Signature] // nil: there is no store
}

// linger is how long signatures gather before they are written together.
const linger = 50 * time.Millisecond

var words = batch.Words{
	Failing: "signatures cannot be kept for now",
	Again:   "signatures are kept again",
	TooMany: "more signatures than could be kept",
}

// NewMemory returns an empty memory.
func NewMemory(opts Options) *Memory {
	if opts.Keep <= 0 {
		opts.Keep = DefaultKeep
	}
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = defaultBytes
	}
	if opts.MaxCount <= 0 {
		opts.MaxCount = defaultCount
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Memory{opts: opts, cache: cache{maxBytes: opts.MaxBytes, maxCount: opts.MaxCount}}
}

// KeepIn makes the memory outlast the process. It is called at most once, before the memory is used; then who made
// the memory closes it, before the store.
func (m *Memory) KeepIn(store perigee.SignatureStore) {
	m.store = store
	gather := linger
	if m.opts.Shared {
		gather = 0 // the next request of the conversation may come to somebody else in a moment
	}
	m.writer = batch.Start(batch.Options[[]perigee.Signature]{
		Queue: &m.queue, Linger: gather, Words: words, Logger: m.opts.Logger,
		Save: func(ctx context.Context, list []perigee.Signature) error {
			return store.SaveSignatures(ctx, latest(list))
		},
	})
}

// Close writes what is not in the store yet. While the store fails it tries until ctx ends.
func (m *Memory) Close(ctx context.Context) error {
	if m.writer == nil {
		return nil
	}
	if missing, err := m.writer.Close(ctx); err != nil {
		return perigee.Errorf(perigee.ClassUnavailable, "%d signatures were not kept: %w", missing, err)
	}
	return nil
}

// settle waits, where the store is shared, until others can find what was remembered: with the end of its answer a client
// may turn to one of them. A store that fails is not waited for.
func (m *Memory) settle(ctx context.Context) {
	if m.writer == nil || !m.opts.Shared || m.writer.Failing() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	m.writer.Flush(ctx)
}

// put remembers a signature under a key.
func (m *Memory) put(key, value, seal string) {
	s := perigee.Signature{Key: key, Value: value, Seal: seal, Expires: m.opts.Now().Add(m.opts.Keep)}
	m.cache.put(s, false)
	if m.writer != nil {
		m.writer.Add(func() { m.queue.put(s) })
	}
}

// remember keeps a signature under a key, and what kind it is under its own.
func (m *Memory) remember(key, value, seal string) {
	m.put(key, value, seal)
	m.put(sealKey(value), "", seal)
}

// A found is what is known under some keys. Nobody changes what it points at.
type found map[string]*perigee.Signature

// find looks the keys up, first in memory and then, all that are missing at once, in the store.
func (m *Memory) find(ctx context.Context, keys []string) found {
	now := m.opts.Now()
	result := found{}
	var missing []string
	for _, key := range keys {
		s, known, absent := m.cache.get(key, now)
		switch {
		case absent:
		case known:
			result[key] = s
		default:
			missing = append(missing, key)
		}
	}
	if m.store != nil && len(missing) > 0 {
		m.load(ctx, missing, result, now)
	}
	m.renew(result, now)
	return result
}

func (m *Memory) load(ctx context.Context, keys []string, result found, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	stored, err := m.store.FindSignatures(ctx, keys)
	if err != nil {
		m.opts.Logger.Warn("signatures cannot be read for now", "error", err)
		return
	}
	believe := forget
	if m.opts.Shared {
		believe = forgetShared
	}
	for i := range stored {
		m.cache.put(stored[i], false)
		result[stored[i].Key] = &stored[i]
	}
	for _, key := range keys {
		if _, ok := result[key]; !ok {
			m.cache.put(perigee.Signature{Key: key, Expires: now.Add(believe)}, true)
		}
	}
}

// renew keeps what a conversation still uses from expiring in the middle of it.
func (m *Memory) renew(result found, now time.Time) {
	for _, s := range result {
		if s.Expires.Sub(now) < m.opts.Keep/2 {
			m.put(s.Key, s.Value, s.Seal)
		}
	}
}

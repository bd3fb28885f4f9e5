package account

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"perigee"
)

// saveTime is how long storing one thing may take.
const saveTime = 10 * time.Second

// A saver stores things one after the other, behind the back of those who wait for accounts. Of several for the same key that
// have not been stored yet only the last counts. It runs only while there is something to store.
type saver[K comparable, V any] struct {
	what   string // is stored, for the log
	store  func(context.Context, K, V) error
	most   int // how many may wait for a store that is slow or away, the rest may as well be forgotten; 0: any number
	logger *slog.Logger

	mu      sync.Mutex
	pending map[K]V
	running sync.WaitGroup
	busy    bool
}

func (s *saver[K, V]) save(key K, value V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == nil {
		s.pending = map[K]V{}
	}
	if _, waits := s.pending[key]; !waits && s.most > 0 && len(s.pending) >= s.most {
		return
	}
	s.pending[key] = value
	if !s.busy {
		s.busy = true
		s.running.Go(s.run)
	}
}

func (s *saver[K, V]) run() {
	for {
		key, value, ok := s.take()
		if !ok {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), saveTime)
		if err := s.store(ctx, key, value); err != nil {
			s.logger.Debug(s.what+" not stored", "error", err)
		}
		cancel()
	}
}

func (s *saver[K, V]) take() (key K, value V, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, value := range s.pending {
		delete(s.pending, key)
		return key, value, true
	}
	s.busy = false
	return key, value, false
}

// drop forgets what has not been stored yet.
func (s *saver[K, V]) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.pending)
}

func (s *saver[K, V]) wait() { s.running.Wait() }

// A resting is what a cooldown is about.
type resting struct{ upstream, email, family, pool string }

// saveCooldown stores a cooldown, if there is a store.
func (p *Pool) saveCooldown(m *member, c perigee.Cooldown) {
	if p.opts.Store != nil {
		p.rests.save(resting{m.signIn.Upstream, m.email, c.Family, c.Pool}, c)
	}
}

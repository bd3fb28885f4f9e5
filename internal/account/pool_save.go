package account

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"perigee"
)

// saveTime is how long storing one cooldown may take.
const saveTime = 10 * time.Second

// A saver stores cooldowns one after the other, behind the back of those who wait for accounts. Of several for the same
// thing that have not been stored yet only the last counts. It runs only while there is something to store.
type saver struct {
	store  CooldownStore
	logger *slog.Logger

	mu      sync.Mutex
	pending map[saving]perigee.Cooldown
	running sync.WaitGroup
	busy    bool
}

type saving struct{ upstream, email, family, pool string }

func (s *saver) save(upstream, email string, c perigee.Cooldown) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == nil {
		s.pending = map[saving]perigee.Cooldown{}
	}
	s.pending[saving{upstream, email, c.Family, c.Pool}] = c
	if !s.busy {
		s.busy = true
		s.running.Go(s.run)
	}
}

func (s *saver) run() {
	for {
		key, c, ok := s.take()
		if !ok {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), saveTime)
		if err := s.store.SaveCooldown(ctx, key.upstream, key.email, c); err != nil {
			s.logger.Debug("cooldown not stored", "account", key.email, "error", err)
		}
		cancel()
	}
}

func (s *saver) take() (saving, perigee.Cooldown, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, c := range s.pending {
		delete(s.pending, key)
		return key, c, true
	}
	s.busy = false
	return saving{}, perigee.Cooldown{}, false
}

func (s *saver) wait() { s.running.Wait() }

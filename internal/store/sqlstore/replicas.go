package sqlstore

import (
	"context"
	"time"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

// A replica renews its row every few seconds. One that has not done so for the length of a lease
// counts as gone, and another replica marks its open calls as cut off. A replica that was only cut
// off from the database for a while renews its row again, and writes how its calls really ended
// when they do.
const (
	leaseTime  = 20 * time.Second
	leaseRenew = 5 * time.Second
)

// The database's clock decides, so that the clocks of replicas may differ.
const (
	databaseNow = `CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)`

	renewReplica = `INSERT INTO replicas (id, started_us, alive_until_us) VALUES ($1, ` + databaseNow + `, ` + databaseNow + ` + $2)
	ON CONFLICT (id) DO UPDATE SET alive_until_us = excluded.alive_until_us`
	removeReplica = `DELETE FROM replicas WHERE id = $1`
	forgetGone    = `DELETE FROM replicas WHERE alive_until_us <= ` + databaseNow
	countAlive    = `SELECT count(*) FROM replicas WHERE alive_until_us > ` + databaseNow
	cutOffAll     = `UPDATE calls SET outcome = $1, class = $2, error = $3 WHERE outcome = 'open'`
	cutOffOfGone  = cutOffAll + ` AND NOT EXISTS
	(SELECT 1 FROM replicas WHERE replicas.id = calls.replica AND alive_until_us > ` + databaseNow + `)`
)

// CutOffOpenCalls marks the calls that are still open as cut off, if their replica is gone, and
// returns how many there were. The daemon calls it when it starts. Without replicas it marks all
// open calls.
func (s *Store) CutOffOpenCalls(ctx context.Context) (int, error) {
	statement := cutOffAll
	if s.Shared() {
		statement = cutOffOfGone
	}
	cut, err := s.db.Exec(ctx, "cut off open calls in", statement,
		string(perigee.OutcomeCutOff), string(perigee.ClassUnavailable), "perigee ended before the call did")
	return int(cut), err
}

// Replicas counts those that are alive; there is one where the database is not shared.
func (s *Store) Replicas(ctx context.Context) (alive int, err error) {
	if !s.Shared() {
		return 1, nil
	}
	defer s.db.Explain("count replicas in", &err)
	_, err = engine.One(ctx, s.db, countAlive, nil, &alive)
	return alive, err
}

// A heartbeat renews the row of a replica until it ends.
type heartbeat struct {
	store *Store
	stop  context.CancelFunc
	done  chan struct{}
}

// startHeartbeat adds the row of this replica.
func (s *Store) startHeartbeat(ctx context.Context) (*heartbeat, error) {
	if err := s.renewReplica(ctx); err != nil {
		return nil, err
	}
	h := &heartbeat{store: s, done: make(chan struct{})}
	ctx, h.stop = context.WithCancel(context.WithoutCancel(ctx))
	go h.run(ctx)
	return h, nil
}

func (s *Store) renewReplica(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseRenew)
	defer cancel()
	_, err := s.db.Write.ExecContext(ctx, renewReplica, s.replica, leaseTime.Microseconds())
	return err
}

func (h *heartbeat) run(ctx context.Context) {
	defer close(h.done)
	tick := time.NewTicker(leaseRenew)
	defer tick.Stop()
	since := time.Now() // when the lease began that has not been lost since
	last := since
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		asked := time.Now()
		if err := h.store.renewReplica(ctx); err != nil {
			h.store.logger.Debug("heartbeat of this replica failed", "error", err)
			continue
		}
		if asked.Sub(last) >= leaseTime {
			since = asked
		}
		last = asked
		// After an outage of the database, other replicas may be alive and not have renewed their
		// rows yet.
		if asked.Sub(since) >= leaseTime {
			h.clear(ctx)
		}
	}
}

// clear marks the open calls of gone replicas as cut off.
func (h *heartbeat) clear(ctx context.Context) {
	cut, err := h.store.CutOffOpenCalls(ctx)
	if err != nil {
		h.store.logger.Debug("open calls of other replicas cannot be checked", "error", err)
		return
	}
	if cut > 0 {
		h.store.logger.Warn("another replica ended with calls open", "calls", cut)
	}
	_, _ = h.store.db.Exec(ctx, "forget replicas in", forgetGone)
}

// end removes the row of the replica. If that fails its lease ends by itself.
func (h *heartbeat) end() {
	h.stop()
	<-h.done
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, _ = h.store.db.Write.ExecContext(ctx, removeReplica, h.store.replica)
}

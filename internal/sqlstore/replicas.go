package sqlstore

import (
	"context"
	"time"

	"perigee"
)

// A replica says every few seconds that it is alive. Who has not said so for the length of a lease is taken for gone, and
// whoever notices cuts off the calls that it had open. A replica that was only cut off from the database for a while
// says so again, and writes how its calls really ended when they do.
const (
	leaseTime  = 20 * time.Second
	leaseRenew = 5 * time.Second
)

// The database's clock decides, so that replicas need not agree on the time.
const (
	databaseNow = `CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)`

	sayAlive = `INSERT INTO replicas (id, started_us, alive_until_us) VALUES ($1, ` + databaseNow + `, ` + databaseNow + ` + $2)
	ON CONFLICT (id) DO UPDATE SET alive_until_us = excluded.alive_until_us`
	sayGoodbye   = `DELETE FROM replicas WHERE id = $1`
	forgetGone   = `DELETE FROM replicas WHERE alive_until_us <= ` + databaseNow
	countAlive   = `SELECT count(*) FROM replicas WHERE alive_until_us > ` + databaseNow
	cutOffAll    = `UPDATE calls SET outcome = $1, class = $2, error = $3 WHERE outcome = 'open'`
	cutOffOfGone = cutOffAll + ` AND NOT EXISTS
	(SELECT 1 FROM replicas WHERE replicas.id = calls.replica AND alive_until_us > ` + databaseNow + `)`
)

// CutOffOpenCalls marks the calls that are still open as cut off, if whoever had them open is gone, and returns how many
// there were. The daemon calls it when it starts. Where there are no replicas that is all of them.
func (s *Store) CutOffOpenCalls(ctx context.Context) (int, error) {
	if err := s.writable("cut off open calls"); err != nil {
		return 0, err
	}
	statement := cutOffAll
	if s.Shared() {
		statement = cutOffOfGone
	}
	cut, err := s.execute(ctx, statement, string(perigee.OutcomeCutOff), string(perigee.ClassUnavailable), "perigee ended before the call did")
	return int(cut), s.explain("cut off open calls in", err)
}

// Replicas counts those that are alive; there is one where the database is not shared.
func (s *Store) Replicas(ctx context.Context) (alive int, err error) {
	if !s.Shared() {
		return 1, nil
	}
	err = s.one(ctx, countAlive, nil, &alive)
	return alive, s.explain("count replicas in", err)
}

// A presence says that a replica is alive, until it ends.
type presence struct {
	store *Store
	stop  context.CancelFunc
	done  chan struct{}
}

// appear says for the first time that this replica is alive.
func (s *Store) appear(ctx context.Context) (*presence, error) {
	if err := s.sayAlive(ctx); err != nil {
		return nil, err
	}
	p := &presence{store: s, done: make(chan struct{})}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	go p.run(ctx)
	return p, nil
}

func (s *Store) sayAlive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseRenew)
	defer cancel()
	_, err := s.write.ExecContext(ctx, sayAlive, s.replica, leaseTime.Microseconds())
	return err
}

func (p *presence) run(ctx context.Context) {
	defer close(p.done)
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
		if err := p.store.sayAlive(ctx); err != nil {
			p.store.logger.Debug("cannot say that this replica is alive", "error", err)
			continue
		}
		if asked.Sub(last) >= leaseTime {
			since = asked
		}
		last = asked
		// When the database was away for all, the others may be alive and just have not said so yet.
		if asked.Sub(since) >= leaseTime {
			p.clear(ctx)
		}
	}
}

// clear does what those who are gone left to do.
func (p *presence) clear(ctx context.Context) {
	cut, err := p.store.CutOffOpenCalls(ctx)
	if err != nil {
		p.store.logger.Debug("open calls of other replicas cannot be looked at", "error", err)
		return
	}
	if cut > 0 {
		p.store.logger.Warn("another replica ended with calls open", "calls", cut)
	}
	_, _ = p.store.execute(ctx, forgetGone)
}

// end says that the replica is gone. If that cannot be said its lease ends by itself.
func (p *presence) end() {
	p.stop()
	<-p.done
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, _ = p.store.write.ExecContext(ctx, sayGoodbye, p.store.replica)
}

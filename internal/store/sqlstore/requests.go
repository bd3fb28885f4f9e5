package sqlstore

import (
	"context"
	"time"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

// takeRequests moves the time until which the requests of a key ($1) are paid for by the cost of
// new ones ($2), unless that would be later than a minute from now; $3 is the rest of that minute.
// One statement is one round trip, and the row is locked while it decides, so no two replicas see
// the same request left.
//
// It counts time and not requests, so that replicas of which one has a new rpm already do not fill
// the bucket for each other. A clock that was set back costs a minute, not the hours that it was
// set back by. A count does not wait for the disk: a power failure loses a minute's count.
const takeRequests = `INSERT INTO key_requests AS k (client_key, paid_us, wait_us)
	SELECT $1, t.now_us + CAST($2 AS BIGINT), 0
	FROM (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS BIGINT) AS now_us) AS t
	WHERE set_config('synchronous_commit', 'off', true) = 'off'
	ON CONFLICT (client_key) DO UPDATE SET
		paid_us = CASE WHEN k.paid_us + CAST($2 AS BIGINT) <= excluded.paid_us + CAST($3 AS BIGINT)
			THEN greatest(k.paid_us + CAST($2 AS BIGINT), excluded.paid_us)
			ELSE least(k.paid_us, excluded.paid_us + CAST($3 AS BIGINT)) END,
		wait_us = greatest(0, least(k.paid_us, excluded.paid_us + CAST($3 AS BIGINT))
			+ CAST($2 AS BIGINT) - excluded.paid_us - CAST($3 AS BIGINT))
	RETURNING wait_us`

// TakeRequests takes n requests, at most perMinute, out of the bucket that a key has over all
// replicas: it holds perMinute and is filled at that rate. If there are not as many it takes none,
// and returns after how long there will be. Only a shared database has such buckets; a single
// process counts in memory.
func (s *Store) TakeRequests(ctx context.Context, key string, n, perMinute int) (wait time.Duration, err error) {
	if !s.Shared() || n < 1 || n > perMinute {
		return 0, perigee.Errorf(perigee.ClassInternal, "count %d requests of %d a minute in %s", n, perMinute, s.db.Name)
	}
	cost := time.Duration(n) * time.Minute / time.Duration(perMinute)
	var micros int64
	if err := s.db.Writable("count requests in"); err != nil {
		return 0, err
	}
	defer s.db.Explain("count requests in", &err)
	_, err = engine.One(ctx, s.db, takeRequests, []any{key, cost.Microseconds(), (time.Minute - cost).Microseconds()}, &micros)
	return time.Duration(micros) * time.Microsecond, err
}

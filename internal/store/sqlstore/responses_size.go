package sqlstore

import (
	"context"

	"perigee/internal/store/sqlstore/engine"
)

const (
	// selectSize adds up lengths, for which neither engine reads the bodies themselves.
	selectSize = `WITH RECURSIVE found AS (
		SELECT items, members, CAST(octet_length(response) AS BIGINT) + octet_length(plain) AS own FROM stored_responses
		WHERE id = $1 AND client_key = $2 AND expires_us > $3
	), path (parent, size) AS (
		SELECT i.parent, octet_length(i.body) FROM found JOIN response_items AS i ON i.id IN (found.items, found.members)
		UNION ALL SELECT i.parent, octet_length(i.body) FROM path JOIN response_items AS i ON i.id = path.parent
	) SELECT own + (SELECT CAST(coalesce(sum(size), 0) AS BIGINT) FROM path) FROM found`
)

// ResponseSize returns about how many bytes Response would return: names of calls that are put into
// items do not count.
func (s *Store) ResponseSize(ctx context.Context, key, id string) (size int64, err error) {
	defer s.db.Explain("read response "+id+" from", &err)
	found, err := engine.One(ctx, s.db, selectSize, []any{id, key, s.now().UnixMicro()}, &size)
	if err == nil && !found {
		err = errNoResponse(id)
	}
	return size, err
}

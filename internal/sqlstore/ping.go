package sqlstore

import "context"

// Ping reads one row of the schema, to find out whether the database answers. The caller's ctx bounds it.
func (s *Store) Ping(ctx context.Context) error {
	var versions int
	return s.explain("read", s.one(ctx, `SELECT count(*) FROM schema_version`, nil, &versions))
}

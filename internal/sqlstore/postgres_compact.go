package sqlstore

import (
	"context"
	"database/sql"

	"perigee"
)

const postgresSizes = `SELECT relname, pg_total_relation_size(oid) FROM pg_class
	WHERE relkind = 'r' AND relnamespace = CAST(current_schema() AS regnamespace)`

func (p *postgres) sizes(ctx context.Context, db *sql.DB) (report perigee.StoreReport, tables map[string]int64, err error) {
	report.Engine, tables = "postgres", map[string]int64{}
	rows, err := db.QueryContext(ctx, postgresSizes)
	err = eachRow(rows, err, func(rows *sql.Rows) error {
		var name string
		var size int64
		err := rows.Scan(&name, &size)
		tables[name] = size
		report.Bytes += size
		return err
	})
	return report, tables, err
}

// compact has the server make the space of removed rows free for new ones, which keeps nothing waiting. To give it back to the
// system it would have to lock the tables, and when that is possible only its administrator knows.
func (p *postgres) compact(ctx context.Context, db *sql.DB, _ bool) (note string, err error) {
	_, tables, err := p.sizes(ctx, db)
	if err != nil {
		return "", err
	}
	for _, table := range tableNames() {
		if _, ok := tables[table]; !ok {
			continue
		}
		if _, err := db.ExecContext(ctx, "VACUUM (ANALYZE) "+table); err != nil {
			return "", err
		}
	}
	return "PostgreSQL keeps free space for new rows; to return it to the system run VACUUM FULL response_items, calls when no call is being answered", nil
}

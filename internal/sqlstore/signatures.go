package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
)

var _ perigee.SignatureStore = (*Store)(nil)

const (
	saveSignature = `INSERT INTO signatures (key, value, seal, expires_us) VALUES ($1, $2, $3, $4)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value, seal = excluded.seal, expires_us = excluded.expires_us`
	dropSignatures = `DELETE FROM signatures WHERE expires_us <= $1`
)

// keysAtOnce is how many keys one query asks for; engines limit the number of arguments.
const keysAtOnce = 1000

// SaveSignatures writes the signatures in one transaction, each under its key, and forgets those that have
// expired. Either all of them are kept or none.
func (s *Store) SaveSignatures(ctx context.Context, signatures []perigee.Signature) error {
	if len(signatures) == 0 {
		return nil
	}
	if err := s.writable("save signatures"); err != nil {
		return err
	}
	if s.Shared() {
		// Another replica may be saving some of the same keys: who takes them in one order cannot block each other.
		signatures = slices.SortedStableFunc(slices.Values(signatures), func(a, b perigee.Signature) int { return cmp.Compare(a.Key, b.Key) })
	}
	err := s.inBulk(ctx, func(ctx context.Context, tx bulkTx) error {
		if err := tx.each(ctx, once(dropSignatures, s.now().UnixMicro())); err != nil {
			return err
		}
		return tx.each(ctx, bulk{statement: saveSignature, rows: len(signatures), args: func(i int, into []any) ([]any, error) {
			g := &signatures[i]
			return append(into, g.Key, g.Value, g.Seal, g.Expires.UnixMicro()), nil
		}})
	})
	if err == nil {
		bytes := 0
		for i := range signatures {
			bytes += len(signatures[i].Key) + len(signatures[i].Value) + len(signatures[i].Seal)
		}
		s.bounds.signed(int64(bytes))
	}
	return s.explain(fmt.Sprintf("save %d signatures in", len(signatures)), err)
}

// FindSignatures returns the signatures that are kept under the keys and have not expired, in no order.
func (s *Store) FindSignatures(ctx context.Context, keys []string) ([]perigee.Signature, error) {
	var found []perigee.Signature
	for some := range slices.Chunk(keys, keysAtOnce) {
		var err error
		if found, err = s.findSignatures(ctx, found, some); err != nil {
			return nil, s.explain("read signatures from", err)
		}
	}
	return found, nil
}

func (s *Store) findSignatures(ctx context.Context, found []perigee.Signature, keys []string) ([]perigee.Signature, error) {
	args := make([]any, 0, len(keys)+1)
	args = append(args, s.now().UnixMicro())
	var marks strings.Builder
	for i, key := range keys {
		if i > 0 {
			marks.WriteByte(',')
		}
		fmt.Fprintf(&marks, "$%d", i+2)
		args = append(args, s.engine.text(key))
	}
	query := `SELECT key, value, seal, expires_us FROM signatures WHERE expires_us > $1 AND key IN (` + marks.String() + `)`
	err := s.each(ctx, query, args, func(rows *sql.Rows) error {
		var g perigee.Signature
		var micros int64
		if err := rows.Scan(&g.Key, &g.Value, &g.Seal, &micros); err != nil {
			return err
		}
		g.Expires = time.UnixMicro(micros).UTC()
		found = append(found, g)
		return nil
	})
	return found, err
}

package sqlstore

import (
	"context"
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
	if s.write == nil {
		return perigee.Errorf(perigee.ClassInternal, "save signatures: the database was opened read-only")
	}
	if err := s.saveSignatures(ctx, signatures); err != nil {
		return s.explain(fmt.Sprintf("save %d signatures in", len(signatures)), err)
	}
	return nil
}

func (s *Store) saveSignatures(ctx context.Context, signatures []perigee.Signature) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit

	if _, err := tx.ExecContext(ctx, dropSignatures, s.now().UnixMicro()); err != nil {
		return err
	}
	save, err := tx.PrepareContext(ctx, saveSignature)
	if err != nil {
		return err
	}
	defer func() { _ = save.Close() }()
	for _, g := range signatures {
		if _, err := save.ExecContext(ctx, g.Key, g.Value, g.Seal, g.Expires.UnixMicro()); err != nil {
			return err
		}
	}
	return tx.Commit()
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
		args = append(args, key)
	}
	rows, err := s.read.QueryContext(ctx, `SELECT key, value, seal, expires_us FROM signatures WHERE expires_us > $1 AND key IN (`+marks.String()+`)`, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var g perigee.Signature
		var micros int64
		if err := rows.Scan(&g.Key, &g.Value, &g.Seal, &micros); err != nil {
			return nil, err
		}
		g.Expires = time.UnixMicro(micros).UTC()
		found = append(found, g)
	}
	return found, rows.Err()
}

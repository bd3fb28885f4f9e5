package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

var _ perigee.SignatureStore = (*Store)(nil)

const dropSignatures = `DELETE FROM signatures WHERE expires_us <= $1`

var saveSignature = engine.Upsert("signatures", "key", "key, value, seal, expires_us")

// SaveSignatures writes the signatures in one transaction, each under its key, and removes those
// that have expired. Either all of them are stored or none.
func (s *Store) SaveSignatures(ctx context.Context, signatures []perigee.Signature) error {
	if len(signatures) == 0 {
		return nil
	}
	if s.Shared() {
		// Another replica may be saving some of the same keys: locking them in one order prevents
		// deadlocks.
		byKey := func(a, b perigee.Signature) int { return cmp.Compare(a.Key, b.Key) }
		signatures = slices.SortedStableFunc(slices.Values(signatures), byKey)
	}
	err := s.db.Transact(ctx, fmt.Sprintf("save %d signatures in", len(signatures)), func(ctx context.Context, tx engine.Tx) error {
		if _, err := tx.Exec(ctx, dropSignatures, s.now().UnixMicro()); err != nil {
			return err
		}
		return tx.Each(ctx, engine.Bulk{Statement: saveSignature, Rows: len(signatures), Args: func(i int, into []any) ([]any, error) {
			g := &signatures[i]
			return append(into, g.Key, g.Value, g.Kind, g.Expires.UnixMicro()), nil
		}})
	})
	if err == nil {
		bytes := 0
		for i := range signatures {
			bytes += len(signatures[i].Key) + len(signatures[i].Value) + len(signatures[i].Kind)
		}
		s.bounds.addSignatures(int64(bytes))
	}
	return err
}

// FindSignatures returns the signatures that are kept under the keys and have not expired, in no
// order.
func (s *Store) FindSignatures(ctx context.Context, keys []string) (found []perigee.Signature, err error) {
	defer s.db.Explain("read signatures from", &err)
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = s.db.Text(key)
	}
	list, err := json.Marshal(texts)
	if err != nil {
		return nil, err
	}
	query := `SELECT key, value, seal, expires_us FROM signatures WHERE key IN (` + s.db.Listed + `) AND expires_us > $2`
	return engine.List(ctx, s.db, query, []any{string(list), s.now().UnixMicro()}, func(g *perigee.Signature) []any {
		return []any{&g.Key, &g.Value, &g.Kind, engine.Micros(&g.Expires)}
	})
}

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"perigee"
)

var _ perigee.ResponseStore = (*Store)(nil)

const (
	saveResponse = `INSERT INTO responses (id, client_key, created_us, expires_us, input, output, response)
	VALUES ($1, $2, $3, $4, $5, $6, $7)
	ON CONFLICT (id) DO UPDATE SET
		client_key = excluded.client_key, created_us = excluded.created_us, expires_us = excluded.expires_us,
		input = excluded.input, output = excluded.output, response = excluded.response`
	clearResponses = `DELETE FROM responses WHERE expires_us <= $1`
	selectResponse = `SELECT created_us, expires_us, input, output, response FROM responses
	WHERE id = $1 AND client_key = $2 AND expires_us > $3`
	deleteResponse = `DELETE FROM responses WHERE id = $1 AND client_key = $2 AND expires_us > $3`
)

// SaveResponse keeps r until it expires and clears away those that have. Times are kept to the microsecond.
func (s *Store) SaveResponse(ctx context.Context, r *perigee.StoredResponse) error {
	if err := s.writable("save response " + r.ID); err != nil {
		return err
	}
	if r.ID == "" {
		return perigee.Errorf(perigee.ClassInternal, "save response: it has no id")
	}
	return s.explain("save response "+r.ID+" in", s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, clearResponses, s.now().UnixMicro()); err != nil {
			return err
		}
		text := s.engine.text
		_, err := tx.ExecContext(ctx, saveResponse, text(r.ID), text(r.Key), r.Created.UnixMicro(), r.Expires.UnixMicro(),
			text(string(r.Input)), text(string(r.Output)), text(string(r.Response)))
		return err
	}))
}

// Response returns what was saved under id by key.
func (s *Store) Response(ctx context.Context, key, id string) (*perigee.StoredResponse, error) {
	r := &perigee.StoredResponse{ID: id, Key: key}
	var created, expires int64
	var input, output, response string
	err := s.one(ctx, selectResponse, []any{s.engine.text(id), s.engine.text(key), s.now().UnixMicro()},
		&created, &expires, &input, &output, &response)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoResponse(id)
	}
	if err != nil {
		return nil, s.explain("read response "+id+" from", err)
	}
	r.Created, r.Expires = time.UnixMicro(created).UTC(), time.UnixMicro(expires).UTC()
	r.Input, r.Output, r.Response = []byte(input), []byte(output), []byte(response)
	return r, nil
}

// DeleteResponse forgets what was saved under id by key.
func (s *Store) DeleteResponse(ctx context.Context, key, id string) error {
	if err := s.writable("delete response " + id); err != nil {
		return err
	}
	deleted, err := s.execute(ctx, deleteResponse, s.engine.text(id), s.engine.text(key), s.now().UnixMicro())
	if err != nil {
		return s.explain("delete response "+id+" from", err)
	}
	if deleted == 0 {
		return errNoResponse(id)
	}
	return nil
}

func errNoResponse(id string) *perigee.Error {
	return perigee.Errorf(perigee.ClassNotFound, "Response with id '%s' not found.", id)
}

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
	if s.write == nil {
		return perigee.Errorf(perigee.ClassInternal, "save response %s: the database was opened read-only", r.ID)
	}
	if r.ID == "" {
		return perigee.Errorf(perigee.ClassInternal, "save response: it has no id")
	}
	return s.explain("save response "+r.ID+" in", s.saveResponse(ctx, r))
}

func (s *Store) saveResponse(ctx context.Context, r *perigee.StoredResponse) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit

	if _, err := tx.ExecContext(ctx, clearResponses, s.now().UnixMicro()); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, saveResponse, r.ID, r.Key, r.Created.UnixMicro(), r.Expires.UnixMicro(),
		string(r.Input), string(r.Output), string(r.Response))
	if err != nil {
		return err
	}
	return tx.Commit()
}

// Response returns what was saved under id by key.
func (s *Store) Response(ctx context.Context, key, id string) (*perigee.StoredResponse, error) {
	r := &perigee.StoredResponse{ID: id, Key: key}
	var created, expires int64
	var input, output, response string
	err := s.read.QueryRowContext(ctx, selectResponse, id, key, s.now().UnixMicro()).
		Scan(&created, &expires, &input, &output, &response)
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
	if s.write == nil {
		return perigee.Errorf(perigee.ClassInternal, "delete response %s: the database was opened read-only", id)
	}
	result, err := s.write.ExecContext(ctx, deleteResponse, id, key, s.now().UnixMicro())
	if err != nil {
		return s.explain("delete response "+id+" from", err)
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return errNoResponse(id)
	}
	return err
}

func errNoResponse(id string) *perigee.Error {
	return perigee.Errorf(perigee.ClassNotFound, "Response with id '%s' not found.", id)
}

package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"perigee"
)

var _ perigee.ResponseStore = (*Store)(nil)

const (
	saveResponse = `INSERT INTO stored_responses (id, client_key, created_us, expires_us, items, input_bytes, names, members, response, plain, bytes)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
	ON CONFLICT (id) DO UPDATE SET
		client_key = excluded.client_key, created_us = excluded.created_us, expires_us = excluded.expires_us,
		items = excluded.items, input_bytes = excluded.input_bytes, names = excluded.names, members = excluded.members,
		response = excluded.response, plain = excluded.plain, bytes = excluded.bytes`
	saveItem  = `INSERT INTO response_items (id, parent, refs, name, named, body) VALUES ($1, $2, 1, $3, $4, $5)`
	referItem = `UPDATE response_items SET refs = refs + 1 WHERE id = $1`
	addTotals = `INSERT INTO response_totals AS t (client_key, responses, items, bytes) VALUES ($1, $2, $3, $4)
	ON CONFLICT (client_key) DO UPDATE SET
		responses = t.responses + excluded.responses, items = t.items + excluded.items, bytes = t.bytes + excluded.bytes`
	selectResponse = `SELECT created_us, expires_us, items, input_bytes, names, members, response, plain FROM stored_responses
	WHERE id = $1 AND client_key = $2 AND expires_us > $3`
	// selectPath reads a list from its last segment to its first.
	selectPath = `WITH RECURSIVE path (place, id) AS (
		SELECT 0, id FROM response_items WHERE id = $1 UNION ALL SELECT path.place + 1, i.parent FROM path JOIN response_items AS i ON i.id = path.id
	) SELECT path.place, i.parent, i.name, i.body FROM path JOIN response_items AS i ON i.id = path.id`
)

// What a row counts for beside what it says: ids, digests and their places in indexes.
const (
	itemOverhead     = 128
	responseOverhead = 256
)

// SaveResponse keeps r until it expires, and removes some of those that have, and of the oldest if there are more bytes than
// LimitResponses allows. Of the conversation only what no other response of the key has already is written. Times are kept
// to the microsecond.
func (s *Store) SaveResponse(ctx context.Context, r *perigee.StoredResponse) error {
	if err := s.writable("save response " + r.ID); err != nil {
		return err
	}
	if r.ID == "" {
		return perigee.Errorf(perigee.ClassInternal, "save response: it has no id")
	}
	key := s.engine.text(r.Key)
	t := plant(key, r)
	if limit := s.responses.limit.Load(); limit > 0 && t.bytes() > limit {
		return perigee.Errorf(perigee.ClassCapacity, "save response %s: its conversation of %d bytes is larger than store.responses", r.ID, t.bytes()).
			WithNext("raise store.responses, which is %d bytes", limit)
	}
	var kept keptState
	err := s.inBulk(ctx, func(ctx context.Context, tx bulkTx) (err error) {
		if err := s.saveTree(ctx, tx, key, r, &t); err != nil {
			return err
		}
		kept, err = readKept(ctx, tx)
		return err
	})
	if err != nil {
		return s.explain("save response "+r.ID+" in", err)
	}
	s.trimAfterSave(ctx, kept)
	return nil
}

// saveTree writes a response and what is new of its tree.
func (s *Store) saveTree(ctx context.Context, tx bulkTx, key string, r *perigee.StoredResponse, t *tree) error {
	if err := s.lockResponses(ctx, tx, key); err != nil {
		return err
	}
	text := s.engine.text
	id := text(r.ID)
	before, err := s.findRow(ctx, tx, id)
	if err != nil {
		return err
	}
	var added total
	itemsName, err := added.saveList(ctx, tx, t.items)
	if err != nil {
		return err
	}
	if _, err := added.saveList(ctx, tx, t.members); err != nil {
		return err
	}
	size := int64(len(t.response)+len(t.plain)+len(itemsName)) + responseOverhead
	added.responses++
	added.bytes += size
	err = tx.each(ctx, once(saveResponse, id, key, r.Created.UnixMicro(), r.Expires.UnixMicro(),
		last(t.items), t.inputBytes, itemsName, last(t.members), t.response, t.plain, size))
	if err != nil {
		return err
	}
	if err := added.write(ctx, tx, key); err != nil {
		return err
	}
	if before != nil { // what the new row has of its segments is referred to by that already
		_, err = s.dropRow(ctx, tx, before)
	}
	return err
}

// bytes is what the tree counts for when it shares nothing.
func (t *tree) bytes() int64 {
	n := int64(len(t.response)+len(t.plain)) + responseOverhead
	for _, list := range [][]segment{t.items, t.members} {
		for i := range list {
			n += int64(list[i].size()) + itemOverhead
		}
	}
	return n
}

// last is the id of the last segment; empty when there is none.
func last(list []segment) []byte {
	if len(list) == 0 {
		return []byte{}
	}
	return list[len(list)-1].id[:]
}

// A total is what is kept for a key, or the difference that a transaction makes to it.
type total struct{ responses, items, bytes int64 }

func (d *total) write(ctx context.Context, tx bulkTx, key string) error {
	return tx.each(ctx, once(addTotals, key, d.responses, d.items, d.bytes))
}

// saveList writes those segments of a list that are not there yet, and refers to the last one. It returns the names that the
// response needs: none if the names that are stored are right.
func (d *total) saveList(ctx context.Context, tx bulkTx, list []segment) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	known, named, err := findLast(ctx, tx, list)
	if err != nil {
		return "", err
	}
	names := ""
	if known > 0 && named != list[known-1].named {
		names = runsOf(list).String()
	}
	added := list[known:]
	if known > 0 {
		nameAll(added, named)
		if err := tx.each(ctx, once(referItem, list[known-1].id[:])); err != nil {
			return "", err
		}
	}
	d.items += int64(len(added))
	err = tx.each(ctx, bulk{statement: saveItem, rows: len(added), args: func(i int, into []any) ([]any, error) {
		g, parent := &added[i], []byte{}
		if known+i > 0 {
			parent = list[known+i-1].id[:]
		}
		body := g.body()
		d.bytes += int64(len(body)) + itemOverhead
		return append(into, g.id[:], parent, g.name, g.named[:], body), nil
	}})
	return names, err
}

// knownFirst is how many segments are looked for first.
const knownFirst = 8

// findLast says how many of the segments are there already: with a segment all before it are. named is the digest of names
// that is stored with the last of them. Most of a conversation is there, so it looks from the end on.
func findLast(ctx context.Context, tx bulkTx, list []segment) (known int, named digest, err error) {
	for end, some := len(list), knownFirst; end > 0 && known == 0; some = min(some*8, 512) {
		from := max(0, end-some)
		args := make([]any, some)
		for i := range args {
			args[i] = list[min(from+i, end-1)].id[:] // repeated, so that there are few different statements
		}
		err := tx.query(ctx, selectKnown(some), args, func(row scanner) error {
			var id, digest []byte
			if err := row.Scan(&id, &digest); err != nil {
				return err
			}
			for i := end; i > max(from, known); i-- {
				if bytes.Equal(id, list[i-1].id[:]) {
					known = i
					copy(named[:], digest)
				}
			}
			return nil
		})
		if err != nil {
			return 0, named, err
		}
		end = from
	}
	return known, named, nil
}

// Response returns what was saved under id by key.
func (s *Store) Response(ctx context.Context, key, id string) (*perigee.StoredResponse, error) {
	r, err := s.response(ctx, key, id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoResponse(id)
	}
	return r, s.explain("read response "+id+" from", err)
}

// errTorn says that the items of a response were not all there: it was replaced or removed while it was read.
var errTorn = errors.New("the items of the response are not all there")

func (s *Store) response(ctx context.Context, key, id string) (r *perigee.StoredResponse, err error) {
	for range 3 {
		if r, err = s.readResponse(ctx, key, id); !errors.Is(err, errTorn) {
			return r, err
		}
	}
	return nil, err
}

func (s *Store) readResponse(ctx context.Context, key, id string) (*perigee.StoredResponse, error) {
	r := &perigee.StoredResponse{ID: id, Key: key}
	var created, expires, inputBytes int64
	var names string
	var items, members, response, plain []byte
	args := []any{s.engine.text(id), s.engine.text(key), s.now().UnixMicro()}
	err := s.one(ctx, selectResponse, args, &created, &expires, &items, &inputBytes, &names, &members, &response, &plain)
	if errors.Is(err, sql.ErrNoRows) {
		return s.readOld(ctx, r, args)
	}
	if err != nil {
		return nil, err
	}
	r.Created, r.Expires = time.UnixMicro(created).UTC(), time.UnixMicro(expires).UTC()
	var ok bool
	if inputBytes < 0 {
		r.Input, r.Output, ok = splitPlain(plain)
	} else {
		var list [][]byte
		if list, err = s.readList(ctx, items, names); err != nil {
			return nil, err
		}
		r.Input, r.Output, ok = arrays(bytes.Join(list, []byte{','}), inputBytes)
	}
	if !ok {
		return nil, errTorn
	}
	cut, err := s.readList(ctx, members, "")
	if err != nil {
		return nil, err
	}
	r.Response, err = fill(response, cut)
	return r, err
}

// fill puts the members back that were cut out of a response.
func fill(response []byte, members [][]byte) ([]byte, error) {
	if len(members) == 0 {
		return response, nil
	}
	parts := bytes.Split(response, []byte{0})
	if len(parts) != len(members)+1 {
		return nil, fmt.Errorf("%d members for %d places", len(members), len(parts)-1)
	}
	whole := parts[:1:1]
	for i, member := range members {
		whole = append(whole, member, parts[i+1])
	}
	return bytes.Join(whole, nil), nil
}

// readList reads the segments of a list by the id of the last one, with the names that the response has for them. Rows of
// segments do not change, so a list that is whole is right.
func (s *Store) readList(ctx context.Context, end []byte, names string) ([][]byte, error) {
	if len(end) == 0 {
		return nil, nil
	}
	runs, err := parseRuns(names)
	if err != nil {
		return nil, err
	}
	type found struct {
		place int
		first bool
		name  string
		body  []byte
	}
	var rows []found
	err = s.each(ctx, selectPath, []any{end}, func(row *sql.Rows) error {
		var f found
		var parent []byte
		err := row.Scan(&f.place, &parent, &f.name, &f.body)
		f.first = len(parent) == 0
		rows = append(rows, f)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b found) int { return b.place - a.place })
	if len(rows) == 0 || !rows[0].first {
		return nil, errTorn
	}
	list := make([][]byte, len(rows))
	for i, f := range rows {
		name := f.name
		if runs != nil {
			name = runs.at(i)
		}
		list[i] = f.body
		if f.name != "" {
			list[i] = bytes.ReplaceAll(f.body, []byte{0}, []byte(name))
		}
	}
	return list, nil
}

func errNoResponse(id string) *perigee.Error {
	return perigee.Errorf(perigee.ClassNotFound, "Response with id '%s' not found.", id)
}

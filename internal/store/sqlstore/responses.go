package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
)

var _ perigee.ResponseStore = (*Store)(nil)

const (
	responseColumns = `id, client_key, created_us, expires_us, items, input_bytes, names, members, response, plain, bytes`
	saveItem        = `INSERT INTO response_items (id, parent, refs, name, named, body) VALUES ($1, $2, 1, $3, $4, $5)`
	referItem       = `UPDATE response_items SET refs = refs + 1 WHERE id = $1`
	selectResponse  = `SELECT created_us, expires_us, items, input_bytes, names, members, response, plain FROM stored_responses
	WHERE id = $1 AND client_key = $2 AND expires_us > $3`
	// selectPath reads a list from its last segment to its first.
	selectPath = `WITH RECURSIVE path (place, id) AS (
		SELECT 0, id FROM response_items WHERE id = $1
		UNION ALL SELECT path.place + 1, i.parent FROM path JOIN response_items AS i ON i.id = path.id
	) SELECT path.place, i.parent, i.name, i.body FROM path JOIN response_items AS i ON i.id = path.id`
)

var (
	// addResponse changes nothing if there is a row with that id.
	addResponse     = engine.Insert("stored_responses", responseColumns) + ` ON CONFLICT (id) DO NOTHING`
	replaceResponse = engine.Upsert("stored_responses", "id", responseColumns)
	addTotals       = engine.AddUp("response_totals", "client_key", "client_key, responses, items, bytes")
)

// The bytes that a row counts for beside its content: ids, digests and index entries.
const (
	itemOverhead     = 128
	responseOverhead = 256
)

// SaveResponse stores r until it expires. It also removes some of the expired responses, and some
// of the oldest if there are more bytes than LimitResponses allows. It writes only the part of the
// conversation that no other response of the key has. Times are stored to the microsecond.
func (s *Store) SaveResponse(ctx context.Context, r *perigee.StoredResponse) error {
	if r.ID == "" {
		return perigee.Errorf(perigee.ClassInternal, "save response: it has no id")
	}
	key := s.db.Text(r.Key)
	t := cutSegments(key, r)
	if limit := s.responses.limit.Load(); limit > 0 && bytesOf(&t) > limit {
		return perigee.Errorf(perigee.ClassCapacity, "save response %s: its conversation of %d bytes is larger than store.responses",
			r.ID, bytesOf(&t)).WithHint("raise store.responses, which is %d bytes", limit)
	}
	var kept responseState
	err := s.db.Transact(ctx, "save response "+r.ID+" in", func(ctx context.Context, tx engine.Tx) error {
		if err := s.saveTree(ctx, tx, key, r, &t); err != nil {
			return err
		}
		_, err := engine.One(ctx, tx, selectKept, nil, &kept.bytes, &kept.first)
		return err
	})
	if err == nil {
		s.trimAfterSave(ctx, kept)
	}
	return err
}

// saveTree writes a response and the segments of its tree that are new.
func (s *Store) saveTree(ctx context.Context, tx engine.Tx, key string, r *perigee.StoredResponse, t *segmentTree) error {
	if err := s.db.Lock(ctx, tx, responsesOf(key)); err != nil {
		return err
	}
	id := s.db.Text(r.ID)
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
	row := []any{
		id, key, r.Created.UnixMicro(), r.Expires.UnixMicro(),
		last(t.items), t.inputBytes, itemsName, last(t.members), t.response, t.plain, size,
	}
	isNew, err := tx.Exec(ctx, addResponse, row...)
	if err == nil {
		err = added.write(ctx, tx, key)
	}
	if err != nil || isNew > 0 {
		return err
	}
	return s.replaceRow(ctx, tx, id, row)
}

// replaceRow replaces a response that was saved before. The new row already refers to the segments
// that it shares with the old one.
func (s *Store) replaceRow(ctx context.Context, tx engine.Tx, id string, row []any) error {
	before, err := s.findRow(ctx, tx, id)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, replaceResponse, row...); err != nil || before == nil {
		return err
	}
	_, err = s.dropRow(ctx, tx, before)
	return err
}

// bytesOf returns the size of a tree that shares nothing.
func bytesOf(t *segmentTree) int64 {
	n := int64(len(t.response)+len(t.plain)) + responseOverhead
	for _, list := range [][]segment{t.items, t.members} {
		for i := range list {
			n += int64(list[i].size()) + itemOverhead
		}
	}
	return n
}

// last returns the id of the last segment; empty when there is none.
func last(list []segment) []byte {
	if len(list) == 0 {
		return []byte{}
	}
	return list[len(list)-1].id[:]
}

// A total counts the rows and bytes that a key has stored, or the difference that a transaction
// makes.
type total struct{ responses, items, bytes int64 }

func (d *total) write(ctx context.Context, tx engine.Tx, key string) error {
	_, err := tx.Exec(ctx, addTotals, key, d.responses, d.items, d.bytes)
	return err
}

// saveList writes those segments of a list that are not there yet, and refers to the last one. It
// returns the names that the response needs: none if the names that are stored are right.
func (d *total) saveList(ctx context.Context, tx engine.Tx, list []segment) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	known, named, err := findLast(ctx, tx, list)
	if err != nil {
		return "", err
	}
	names := ""
	if known > 0 && named != list[known-1].named {
		names = segmentNames(list)
	}
	added := list[known:]
	if known > 0 {
		nameSegments(added, named)
		if _, err := tx.Exec(ctx, referItem, list[known-1].id[:]); err != nil {
			return "", err
		}
	}
	d.items += int64(len(added))
	err = tx.Each(ctx, engine.Bulk{Statement: saveItem, Rows: len(added), Args: func(i int, into []any) ([]any, error) {
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

// knownFirst is how many segments the first query asks for.
const knownFirst = 8

// findLast returns how many of the segments are stored already: with a segment all before it are.
// named is the digest of names that is stored with the last of them. Most of a conversation is
// stored, so it searches from the end.
func findLast(ctx context.Context, tx engine.Tx, list []segment) (known int, named segmentID, err error) {
	for end, some := len(list), knownFirst; end > 0 && known == 0; some = min(some*8, 512) {
		from := max(0, end-some)
		args := make([]any, some)
		for i := range args {
			// The last one is repeated, so that there are few different statements.
			args[i] = list[min(from+i, end-1)].id[:]
		}
		err := tx.Query(ctx, selectKnown(some), args, func(row engine.Row) error {
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

// Response returns the response that a key has saved under an id.
func (s *Store) Response(ctx context.Context, key, id string) (r *perigee.StoredResponse, err error) {
	defer s.db.Explain("read response "+id+" from", &err)
	for range 3 {
		if r, err = s.readResponse(ctx, key, id); !errors.Is(err, errTorn) {
			return r, err
		}
	}
	return nil, err
}

// errTorn is the error of a read during which the response was replaced or removed: some of its
// items are missing.
var errTorn = errors.New("the items of the response are not all there")

func (s *Store) readResponse(ctx context.Context, key, id string) (*perigee.StoredResponse, error) {
	r := &perigee.StoredResponse{ID: id, Key: key}
	var inputBytes int64
	var names string
	var items, members, response, plain []byte
	found, err := engine.One(ctx, s.db, selectResponse, []any{id, key, s.now().UnixMicro()},
		engine.Micros(&r.Created), engine.Micros(&r.Expires), &items, &inputBytes, &names, &members, &response, &plain)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, errNoResponse(id)
	}
	parts, err := s.readList(ctx, items, names)
	if err != nil {
		return nil, err
	}
	var ok bool
	if r.Input, r.Output, ok = joinSegments(parts, plain, inputBytes); !ok {
		return nil, errTorn
	}
	cut, err := s.readList(ctx, members, "")
	if err != nil {
		return nil, err
	}
	r.Response, err = fillMembers(response, cut)
	return r, err
}

// readList reads the segments of a list by the id of the last one, with the names that the response
// has for them. Rows of segments do not change, so a list that is whole is right.
func (s *Store) readList(ctx context.Context, end []byte, names string) ([]segmentPart, error) {
	if len(end) == 0 {
		return nil, nil
	}
	type found struct {
		place  int
		parent []byte
		name   string
		body   []byte
	}
	rows, err := engine.List(ctx, s.db, selectPath, []any{end}, func(f *found) []any {
		return []any{&f.place, &f.parent, &f.name, &f.body}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b found) int { return b.place - a.place })
	if len(rows) == 0 || len(rows[0].parent) > 0 {
		return nil, errTorn
	}
	parts := make([]segmentPart, len(rows))
	for i, f := range rows {
		parts[i] = segmentPart{body: f.body, name: f.name}
	}
	return parts, renameSegments(parts, names)
}

func errNoResponse(id string) *perigee.Error {
	return perigee.Errorf(perigee.ClassNotFound, "Response with id '%s' not found.", id)
}

package sqlstore

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee/internal/testing/perigeetest"

	"pgregory.net/rapid"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
	"perigee/internal/testing/perigeetest/await"
)

// conversation is what a client says and gets: each item without its id.
type conversation struct {
	said []string
	last *perigee.StoredResponse
}

func list(items ...string) []byte { return []byte("[" + strings.Join(items, ",") + "]") }

func inside(array []byte) []string {
	if len(array) <= 2 {
		return nil
	}
	return []string{string(array[1 : len(array)-1])}
}

// goOn is the answer to a call that says something more, as the dialect would have it stored. With
// whole the client sends the whole conversation, else it names the response that it goes on from.
func (c *conversation) goOn(call string, whole bool, said, answer string) *perigee.StoredResponse {
	var input []string
	c.said = append(c.said, said)
	if whole || c.last == nil {
		for i, text := range c.said {
			input = append(input, fmt.Sprintf(`{"id":"msg_%s_i%d","type":"message","content":%q}`, call, i, text))
		}
	} else {
		input = append(inside(c.last.Input), inside(c.last.Output)...)
		input = append(input, fmt.Sprintf(`{"id":"msg_%s_i0","type":"message","content":%q}`, call, said))
	}
	c.said = append(c.said, answer)
	c.last = &perigee.StoredResponse{
		ID: "resp_" + call, Key: "laptop", Created: noon, Expires: noon.Add(30 * 24 * time.Hour),
		Input: list(input...), Output: list(fmt.Sprintf(`{"id":"msg_%s_0","type":"message","content":%q}`, call, answer)),
		Response: fmt.Appendf(nil, `{"id":"resp_%s","instructions":%q,"output":[{"content":%q}],"tools":[%q]}`,
			call, strings.Repeat("be good ", 200), answer, strings.Repeat("tool ", 300)),
	}
	return c.last
}

// testLinearSpace is about M6: 40 turns took 17.5 MB and 80 turns 69 MB.
func testLinearSpace(t *testing.T, s *Store, _ *time.Time) {
	const turn = 20 << 10
	for _, whole := range []bool{false, true} {
		var c conversation
		var kept [2]int64
		start := totals(t, s).bytes
		for n := range 80 {
			r := c.goOn(fmt.Sprintf("%vcall%d", whole, n), whole, strings.Repeat(fmt.Sprintf("%07d ", n), turn/8), "yes")
			mustKeep(t, s, r)
			if n == 39 || n == 79 {
				kept[n/40] = totals(t, s).bytes - start
			}
			if n%13 == 0 {
				wantResponse(t, s, r)
			}
		}
		if kept[0] > 40*turn*11/10 || kept[1] > 80*turn*11/10 {
			t.Errorf("whole %v: 40 turns of 20 KiB take %d bytes, and 80 take %d", whole, kept[0], kept[1])
		}
		wantResponse(t, s, c.last)
	}
	checkResponses(t, s)
}

func TestLinearFile(t *testing.T) {
	perigeetest.Slow(t)
	options := freshSQLite(t)
	s := openWith(t, options)
	var c conversation
	for n := range 80 {
		mustKeep(t, s, c.goOn(fmt.Sprint("call", n), true, strings.Repeat(fmt.Sprintf("%07d ", n), 20<<10/8), "yes"))
	}
	if _, err := s.db.Write.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(options.Path); err != nil || info.Size() > 5<<20 {
		t.Errorf("80 turns of 20 KB take a file of %d bytes (%v)", info.Size(), err)
	}
}

func wantResponse(t testing.TB, s *Store, want *perigee.StoredResponse) {
	t.Helper()
	got, err := s.Response(t.Context(), want.Key, want.ID)
	if err != nil || !sameResponse(got, want) {
		t.Fatalf("got %+v (%v)\nwant %+v", got, err, want)
	}
	size, err := s.ResponseSize(t.Context(), want.Key, want.ID)
	if whole := int64(len(want.Input) + len(want.Output) + len(want.Response)); err != nil || size > whole+64 || size < whole/2-64 {
		t.Fatalf("a response of %d bytes is said to have %d (%v)", whole, size, err)
	}
}

func sameResponse(a, b *perigee.StoredResponse) bool {
	return a.ID == b.ID && a.Key == b.Key && a.Created.Equal(b.Created) && a.Expires.Equal(b.Expires) &&
		bytes.Equal(a.Input, b.Input) && bytes.Equal(a.Output, b.Output) && bytes.Equal(a.Response, b.Response)
}

func totals(t testing.TB, s *Store) (sum total) {
	t.Helper()
	const query = `SELECT coalesce(sum(responses), 0), coalesce(sum(items), 0), coalesce(sum(bytes), 0) FROM response_totals`
	if err := s.db.Read.QueryRow(query).Scan(&sum.responses, &sum.items, &sum.bytes); err != nil {
		t.Fatal(err)
	}
	return sum
}

// checkResponses looks whether references and totals are what they should be.
func checkResponses(t testing.TB, s *Store) {
	t.Helper()
	for name, query := range map[string]string{
		"items with another number of references": `SELECT count(*) FROM response_items AS i WHERE refs <>
			(SELECT count(*) FROM response_items AS c WHERE c.parent = i.id) +
			(SELECT count(*) FROM stored_responses AS r WHERE r.items = i.id) +
			(SELECT count(*) FROM stored_responses AS r WHERE r.members = i.id)`,
		"items without a reference": `SELECT count(*) FROM response_items WHERE refs < 1`,
		"items without a parent": `SELECT count(*) FROM response_items AS i WHERE length(parent) > 0
			AND NOT EXISTS (SELECT 1 FROM response_items AS p WHERE p.id = i.parent)`,
		"responses without items": `SELECT count(*) FROM stored_responses AS r WHERE length(items) > 0
			AND NOT EXISTS (SELECT 1 FROM response_items AS p WHERE p.id = r.items)`,
		"keys without responses": `SELECT count(*) FROM response_totals WHERE responses < 1`,
	} {
		var n int
		if err := s.db.Read.QueryRow(query).Scan(&n); err != nil || n != 0 {
			t.Fatalf("%d %s (%v)", n, name, err)
		}
	}
	var want, rows total
	if err := s.db.Read.QueryRow(`SELECT count(*), coalesce(sum(bytes), 0) FROM stored_responses`).Scan(&rows.responses, &rows.bytes); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Read.QueryRow(`SELECT count(*), coalesce(sum(length(body)), 0) FROM response_items`).Scan(&want.items, &want.bytes); err != nil {
		t.Fatal(err)
	}
	want = total{rows.responses, want.items, want.bytes + want.items*itemOverhead + rows.bytes}
	if got := totals(t, s); got != want {
		t.Fatalf("the totals are %+v, the rows are %+v", got, want)
	}
}

func testDeletedMiddle(t *testing.T, s *Store, _ *time.Time) {
	var c conversation
	var all []*perigee.StoredResponse
	for n := range 5 {
		r := *c.goOn(fmt.Sprint("call", n), n == 3, strings.Repeat("x", 700), "fine")
		all = append(all, &r)
		mustKeep(t, s, &r)
	}
	for _, i := range []int{2, 0, 4} {
		if err := s.DeleteResponse(t.Context(), "laptop", all[i].ID); err != nil {
			t.Fatal(err)
		}
		all[i] = nil
		for _, r := range all {
			if r != nil {
				wantResponse(t, s, r)
			}
		}
		checkResponses(t, s)
	}
	for _, i := range []int{1, 3} {
		if err := s.DeleteResponse(t.Context(), "laptop", all[i].ID); err != nil {
			t.Fatal(err)
		}
	}
	if got := totals(t, s); got != (total{}) {
		t.Errorf("nothing should be left, but %+v is", got)
	}
}

// testKeysShareNothing: that two keys say the same must not show in what is stored.
func testKeysShareNothing(t *testing.T, s *Store, _ *time.Time) {
	var kept [2]int64
	for i, key := range []string{"a", "b"} {
		var c conversation
		r := c.goOn(fmt.Sprint("call", i), true, strings.Repeat("x", 5000), "fine")
		r.Key = key
		mustKeep(t, s, r)
		kept[i] = totals(t, s).bytes
	}
	if kept[1] != 2*kept[0] {
		t.Errorf("the first key has %d bytes, both have %d", kept[0], kept[1])
	}
}

// testStrangeTexts: whatever is saved comes back byte for byte.
func testStrangeTexts(t *testing.T, s *Store, _ *time.Time) {
	long := strings.Repeat("long ", 200)
	for i, text := range []string{
		``, `[]`, `[ ]`, `[1]`, `[1 ,2]`, `[1, 2]`, `[1,2] `, "[\"\x00\"]", "[\"\xff\"]", `{"a":1}`, `[`, `]`, `[,]`, `[1,]`, `null`, `[,{"id":"msg_a_i0"},,{"id":"msg_a_i0"},]`, `[1,{"id":"]`,
		`[{"id":"msg_a_i0"},{"id":"msg_b_i0"},{"id":"msg_a_i1"}]`, `[{"id":"msg_a_i"},{"id":"msg__i0"},{"id":"_a_i0"},{"id":"msg_a_i0`,
		`[{"id":"` + long + `"},"` + long + `",[` + strings.Repeat(`{},`, 300) + `{}]]`, `[{"id":"msg_ü_i0"},{"id":"a_b_i1_i2"}]`,
	} {
		for j, response := range []string{`{}`, ``, "\x00", `{"a":"` + long + `"}`, `{"a":"` + long + `","b":["` + long + `"]}x`, `{"a":"` + long + "\x00\"}", `["` + long + `"]`} {
			r := &perigee.StoredResponse{ID: fmt.Sprintf("resp_%d_%d", i, j), Key: "laptop", Created: noon, Expires: noon.Add(time.Hour),
				Input: []byte(text), Output: list(), Response: []byte(response)}
			if i%2 == 1 {
				r.Input, r.Output = r.Output, r.Input
			}
			mustKeep(t, s, r)
			wantResponse(t, s, r)
		}
	}
	checkResponses(t, s)
}

func finishUpkeep(t testing.TB, s *Store) {
	t.Helper()
	for more := true; more; {
		var err error
		if _, more, err = s.Upkeep(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
}

// testResponseLimit: the oldest of all keys are removed first, and one that would be too large
// alone is refused.
func testResponseLimit(t *testing.T, s *Store, _ *time.Time) {
	const limit = 40 << 10
	s.LimitResponses(limit)
	save := func(n int, size int) error {
		r := keptResponse(fmt.Sprint("resp_", n), fmt.Sprint("key", n%3))
		r.Expires = r.Expires.Add(time.Duration(n) * time.Second)
		r.Input = list(fmt.Sprintf("%q", strings.Repeat(fmt.Sprint(n%10), size)))
		return s.SaveResponse(t.Context(), r)
	}
	for n := range 20 {
		if err := save(n, 5<<10); err != nil {
			t.Fatal(err)
		}
		if got := totals(t, s); got.bytes > limit {
			t.Fatalf("%d bytes are kept", got.bytes)
		}
	}
	for n := range 20 {
		_, err := s.Response(t.Context(), fmt.Sprint("key", n%3), fmt.Sprint("resp_", n))
		if there := err == nil; there != (n >= 13) {
			t.Errorf("response %d is there: %v", n, there)
		}
	}
	if err := save(20, limit); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassCapacity {
		t.Errorf("one that is larger than the limit: %v", err)
	}
	if got := totals(t, s); got.responses != 7 {
		t.Errorf("%d responses are left after one that is too large", got.responses)
	}
	s.LimitResponses(12 << 10)
	finishUpkeep(t, s)
	if got := totals(t, s); got.responses != 2 {
		t.Errorf("%d responses are left after the limit was lowered", got.responses)
	}
	checkResponses(t, s)
}

// A responseModel is what a store should have.
type responseModel struct {
	*Store
	now  time.Time
	kept map[string]*perigee.StoredResponse
}

// TestResponseModel saves, reads, deletes and expires in random order, under a limit that changes,
// and compares with a map.
func TestResponseModel(t *testing.T) {
	onEngines(t, func(t *testing.T, fresh fresh) {
		m, options := &responseModel{}, fresh(t)
		options.Now = func() time.Time { return m.now }
		m.Store = openWith(t, options)
		rapid.Check(t, func(r *rapid.T) {
			if _, err := m.db.Write.Exec(`DELETE FROM stored_responses; DELETE FROM response_items; DELETE FROM response_totals`); err != nil {
				r.Fatal(err)
			}
			m.now, m.kept = noon, map[string]*perigee.StoredResponse{}
			m.LimitResponses(0)
			var talks []*conversation
			for call := range rapid.IntRange(1, 20).Draw(r, "steps") {
				m.step(r, &talks, call)
			}
			finishUpkeep(t, m.Store)
			m.compare(r)
			checkResponses(t, m.Store)
		})
	})
}

func (m *responseModel) step(t *rapid.T, talks *[]*conversation, call int) {
	var some *perigee.StoredResponse
	step := rapid.SampledFrom([]string{"save", "save", "save", "save", "again", "delete", "expire", "limit"}).Draw(t, "step")
	if step == "again" || step == "delete" {
		if len(m.kept) == 0 {
			return
		}
		some = m.kept[rapid.SampledFrom(slices.Sorted(maps.Keys(m.kept))).Draw(t, "id")]
	}
	switch step {
	case "save":
		saved := anyTurn(t, talks, call)
		saved.Expires = m.now.Add(time.Duration(rapid.IntRange(1, 48).Draw(t, "hours"))*time.Hour + time.Duration(call)*time.Microsecond)
		m.save(t, saved)
	case "again": // as in the background: first without an answer
		replaced := *some
		replaced.Output, replaced.Response = list(`{"later":true}`), []byte(`{"status":"completed"}`)
		m.save(t, &replaced)
	case "delete":
		if err := m.DeleteResponse(t.Context(), some.Key, some.ID); err != nil {
			t.Fatal(err)
		}
		delete(m.kept, some.ID)
	case "expire":
		m.now = m.now.Add(time.Duration(rapid.IntRange(1, 12).Draw(t, "hours")) * time.Hour)
		maps.DeleteFunc(m.kept, func(_ string, r *perigee.StoredResponse) bool { return !r.Expires.After(m.now) })
	case "limit":
		m.LimitResponses(rapid.SampledFrom([]int64{0, 20 << 10, 60 << 10}).Draw(t, "limit"))
	}
}

// save saves a response, or finds it to be too large, and looks what the limit has removed.
func (m *responseModel) save(t *rapid.T, r *perigee.StoredResponse) {
	err := m.SaveResponse(t.Context(), r)
	if e := perigee.AsError(err); e != nil && e.Class == perigee.ClassCapacity && m.responses.limit.Load() > 0 {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	m.kept[r.ID] = r
	m.missing(t)
}

// missing takes out of the model what the limit has removed, which must be the oldest.
func (m *responseModel) missing(t *rapid.T) {
	there := map[string]bool{}
	err := m.db.Query(t.Context(), `SELECT id FROM stored_responses`, nil, func(rows engine.Row) error {
		var id string
		err := rows.Scan(&id)
		there[id] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	stays := false
	for _, r := range slices.SortedFunc(maps.Values(m.kept), func(a, b *perigee.StoredResponse) int { return a.Expires.Compare(b.Expires) }) {
		switch {
		case there[r.ID]:
			stays = true
		case stays || m.responses.limit.Load() == 0:
			t.Fatalf("%s is gone, although it is not the oldest, or there is no limit", r.ID)
		default:
			delete(m.kept, r.ID)
		}
	}
}

// compare reads everything that the model has.
func (m *responseModel) compare(t *rapid.T) {
	m.missing(t)
	for _, want := range m.kept {
		got, err := m.Response(t.Context(), want.Key, want.ID)
		if err != nil || !sameResponse(got, want) {
			t.Fatalf("got %+v (%v)\nwant %+v", got, err, want)
		}
	}
	var sum total
	if _, err := engine.One(t.Context(), m.db, sumTotals, nil, &sum.responses, &sum.bytes); err != nil {
		t.Fatal(err)
	}
	if limit := m.responses.limit.Load(); int(sum.responses) != len(m.kept) || limit > 0 && sum.bytes > limit {
		t.Fatalf("%+v are stored, want %d of at most %d bytes", sum, len(m.kept), limit)
	}
}

const sumTotals = `SELECT coalesce(sum(responses), 0), coalesce(sum(bytes), 0) FROM response_totals`

// anyTurn goes on with some conversation, or branches off from it, or begins one.
func anyTurn(t *rapid.T, talks *[]*conversation, call int) *perigee.StoredResponse {
	words := rapid.SampledFrom([]string{"", "hello", "über", strings.Repeat("long ", 150), strings.Repeat("longer ", 300)})
	talk := &conversation{}
	if len(*talks) > 0 && rapid.IntRange(0, 5).Draw(t, "new") > 0 {
		from := rapid.SampledFrom(*talks).Draw(t, "talk")
		talk = &conversation{slices.Clone(from.said), from.last}
	}
	r := *talk.goOn(fmt.Sprint("call", call), rapid.Bool().Draw(t, "whole"), words.Draw(t, "said"), words.Draw(t, "answer"))
	r.Key = rapid.SampledFrom([]string{"", "laptop", "desk"}).Draw(t, "key")
	if *talks = append(*talks, talk); len(*talks) > 8 {
		*talks = (*talks)[1:]
	}
	return &r
}

// TestManyAtATime has several replicas save, delete and remove the same conversations at once.
func TestManyAtATime(t *testing.T) {
	onEngines(t, func(t *testing.T, fresh fresh) {
		options := fresh(t)
		stores := []*Store{openWith(t, options)}
		if stores[0].Shared() {
			options.Replica += "-b"
			stores = append(stores, openWith(t, options))
		}
		failed := make(chan error, 8)
		for w := range cap(failed) {
			go func() { failed <- talkOn(t, stores[w%len(stores)], w) }()
		}
		for range cap(failed) {
			if err := await.Receive(t, failed, "the end of a writer"); err != nil {
				t.Error(err)
			}
		}
		checkResponses(t, stores[0])
	})
}

// talkOn has the same conversation as the other workers, forgets it now and then, and reads what it
// has stored.
func talkOn(t *testing.T, s *Store, worker int) error {
	s.LimitResponses(60 << 10)
	for round := range 6 {
		var c conversation
		for n := range 5 {
			r := c.goOn(fmt.Sprintf("w%dr%dn%d", worker, round, n), worker%2 == 0, strings.Repeat(fmt.Sprint(n), 1500), "fine")
			r.Expires = noon.Add(time.Duration(round*5+n+1) * time.Minute)
			if err := s.SaveResponse(t.Context(), r); err != nil {
				return err
			}
			got, err := s.Response(t.Context(), r.Key, r.ID)
			if e := perigee.AsError(err); e != nil && e.Class == perigee.ClassNotFound {
				continue // the limit was quicker
			}
			if err != nil || !sameResponse(got, r) {
				return fmt.Errorf("%s came back as %+v (%w)", r.ID, got, err)
			}
			if n%2 == 1 {
				err := s.DeleteResponse(t.Context(), r.Key, r.ID)
				if e := perigee.AsError(err); e != nil && e.Class != perigee.ClassNotFound {
					return errors.Join(errors.New("delete"), err)
				}
			}
		}
	}
	return nil
}

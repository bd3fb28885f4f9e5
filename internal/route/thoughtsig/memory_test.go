package thoughtsig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
)

func TestTheMemoryIsBounded(t *testing.T) {
	m := NewMemory(Options{MaxCount: 10})
	for i := range 100 {
		m.put(testScope().callKey(fmt.Sprint(i)), "S", "gemini")
		m.find(t.Context(), []string{testScope().callKey("0")}) // used all the time
	}
	if n := m.cache.entries.Len(); n != 10 {
		t.Errorf("%d entries", n)
	}
	if got := ask(t, m, flash, partCall("0"), partCall("1"), partCall("99")); got != "S  S" {
		t.Errorf("got %q", got)
	}
	m = NewMemory(Options{MaxBytes: 10_000})
	for i := range 100 {
		m.put(testScope().callKey(fmt.Sprint(i)), strings.Repeat("S", 1000), "gemini")
	}
	if m.cache.entries.TotalCost() > 10_000 || m.cache.entries.Len() != 8 {
		t.Errorf("%d bytes in %d entries", m.cache.entries.TotalCost(), m.cache.entries.Len())
	}
	if m.put("huge", strings.Repeat("S", 20_000), "gemini"); m.cache.entries.TotalCost() > 10_000 || m.cache.entries.Len() < 7 {
		t.Errorf("%d bytes in %d entries", m.cache.entries.TotalCost(), m.cache.entries.Len())
	}
}

func TestSignaturesExpireUnlessTheyAreUsed(t *testing.T) {
	now := time.Unix(0, 0)
	m := NewMemory(Options{Now: func() time.Time { return now }})
	m.put(testScope().callKey("used"), "S1", "gemini")
	m.put(testScope().callKey("idle"), "S2", "gemini")
	for range 10 {
		now = now.Add(DefaultKeep * 3 / 4)
		if got := ask(t, m, flash, partCall("used")); got != "S1" {
			t.Fatalf("after %v: got %q", now.Sub(time.Unix(0, 0)), got)
		}
	}
	if got := ask(t, m, flash, partCall("idle")); got != "" {
		t.Errorf("got %q", got)
	}
}

// A shelf is a store in memory, which can be made to fail.
type shelf struct {
	mu      sync.Mutex
	rows    map[string]perigee.Signature
	saved   int // batches
	queries [][]string
	err     error
}

func (s *shelf) SaveSignatures(_ context.Context, list []perigee.Signature) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved++
	if s.err != nil {
		return s.err
	}
	if s.rows == nil {
		s.rows = map[string]perigee.Signature{}
	}
	for _, g := range list {
		s.rows[g.Key] = g
	}
	return nil
}

func (s *shelf) FindSignatures(_ context.Context, keys []string) (found []perigee.Signature, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries = append(s.queries, keys)
	for _, key := range keys {
		if g, ok := s.rows[key]; ok {
			found = append(found, g)
		}
	}
	return found, s.err
}

func (s *shelf) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func TestAStoreOutlastsTheProcess(t *testing.T) {
	store := &shelf{}
	m := NewMemory(Options{})
	m.KeepIn(store)
	hear(t, m.Around(&source{events: []perigee.Event{thought("hm"), signature("S1"), signed(called("a"), "S2"), finish()}}), request(perigee.DialectAnthropic, flash))
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if store.saved != 1 || len(store.rows) != 5 {
		t.Errorf("%d rows in %d batches", len(store.rows), store.saved)
	}
	m = NewMemory(Options{})
	m.KeepIn(store)
	defer func() { _ = m.Close(t.Context()) }()
	for range 3 {
		if got := ask(t, m, flash, partThought("hm"), partCall("a"), partText("never signed")); got != "S1 S2 " {
			t.Errorf("got %q", got)
		}
	}
	// One query for all of it, and then none: that something is not there is remembered, too.
	if len(store.queries) != 1 || len(store.queries[0]) != 4 {
		t.Errorf("asked for %q", store.queries)
	}
}

func TestAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{}
		store.fail(errors.New("disk full"))
		m := NewMemory(Options{})
		m.KeepIn(store)
		m.put(testScope().callKey("a"), "S1", "gemini")
		if got := ask(t, m, flash, partCall("a"), partCall("b")); got != "S1 " {
			t.Errorf("got %q: trouble with the store must not reach the request", got)
		}
		time.Sleep(10 * time.Second) // of the bubble
		store.fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(store.rows) != 1 {
			t.Errorf("%d rows after the store had recovered", len(store.rows))
		}
		store.fail(errors.New("disk full"))
		m.put(testScope().callKey("c"), "S3", "gemini")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := m.Close(ctx); err == nil || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("got %v", err)
		}
		m.put(testScope().callKey("d"), "S4", "gemini") // does no harm
		if err := m.Close(t.Context()); err == nil {
			t.Error("closing twice forgot the error")
		}
	})
}

// A stuck store answers no query before the end of its context, unless it works.
type stuck struct {
	shelf
	works bool
}

func (s *stuck) FindSignatures(ctx context.Context, keys []string) ([]perigee.Signature, error) {
	if s.works {
		return s.shelf.FindSignatures(ctx, keys)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A store that hangs delays one of the requests that are forwarded, not each. A mark that is set
// meanwhile counts at once, and one in the store when it works again. A client that leaves says
// nothing about the store.
func TestAStoreThatHangsDelaysOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stuck{shelf: shelf{rows: map[string]perigee.Signature{"k": {Key: "k", Kind: "mixed", Expires: time.Now().Add(time.Hour)}}}}
		m := NewMemory(Options{})
		m.KeepIn(store)
		defer func() { _ = m.Close(t.Context()) }()
		look := func(ctx context.Context, key string, want bool, takes time.Duration) {
			t.Helper()
			began := time.Now()
			if got := m.marked(ctx, key); got != want || time.Since(began) != takes {
				t.Errorf("%s: %t after %v", key, got, time.Since(began))
			}
		}
		gone, leave := context.WithTimeout(t.Context(), findTime/2)
		defer leave()
		look(gone, "k", false, findTime/2)
		for _, takes := range []time.Duration{findTime, 0, 0} {
			look(t.Context(), "k", false, takes)
		}
		look(t.Context(), "new", false, findTime)
		m.put("new", "", "mixed")
		look(t.Context(), "new", true, 0)
		store.works = true
		look(t.Context(), "k", false, 0)
		time.Sleep(failedTime)
		look(t.Context(), "k", true, 0)
	})
}

// Thinking is long: what waits for a store is bounded by its size, too.
func TestWhatWaitsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{}
		store.fail(errors.New("disk full"))
		var log bytes.Buffer
		m := NewMemory(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		m.KeepIn(store)
		value := strings.Repeat("x", maxWaiting/10)
		for i := range 100 {
			m.put(fmt.Sprint(i), value, "gemini")
			if i%5 == 0 {
				time.Sleep(time.Minute) // of the bubble: it is tried and comes back
			}
		}
		synctest.Wait()
		store.fail(nil)
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(store.rows); n == 0 || n > 10 || store.rows["99"].Value != value {
			t.Errorf("%d signatures waited, and the last was among them: %t", n, store.rows["99"].Value == value)
		}
		if lost := fmt.Sprintf("lost=%d", 100-len(store.rows)); !strings.Contains(log.String(), lost) {
			t.Errorf("%s is not in the log:\n%s", lost, &log)
		}
	})
}

func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{}
		m := NewMemory(Options{})
		m.KeepIn(store)
		for i := range 100 {
			m.put(testScope().callKey(fmt.Sprint(i%10)), fmt.Sprint(i), "gemini")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if store.saved != 1 || len(store.rows) != 10 || store.rows[testScope().callKey("9")].Value != "99" {
			t.Errorf("%d rows in %d batches, the last %q", len(store.rows), store.saved, store.rows[testScope().callKey("9")].Value)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A long conversation: the cost for every request, by what is remembered. "unseen" has texts that no
// earlier request had.
func BenchmarkRestore(b *testing.B) {
	for _, size := range []int{100 << 10, 1 << 20} {
		for _, remembered := range []string{"nothing", "others", "all", "unseen"} {
			b.Run(fmt.Sprintf("%dKB/%s", size>>10, remembered), func(b *testing.B) { benchmarkRestore(b, size, remembered) })
		}
	}
}

func benchmarkRestore(b *testing.B, size int, remembered string) {
	const length = 2 << 10
	said := func(of string, i int) string {
		s := fmt.Sprintf("%s %d: ", of, i)
		return s + strings.Repeat("the model's words ", length)[:length-len(s)-1] + "."
	}
	m := NewMemory(Options{})
	m.KeepIn(&shelf{})
	defer func() { _ = m.Close(b.Context()) }()
	var parts []perigee.Part
	for i := range size / length {
		parts = append(parts, partText(said("all", i)), partCall(fmt.Sprint("call_", i)))
		if remembered == "others" || remembered == "all" {
			events := []perigee.Event{text(said(remembered, i)), signature("S"), finish()}
			for range m.Around(&source{events: events}).Stream(b.Context(), request(perigee.DialectAnthropic, flash)) {
			}
		}
	}
	p, _ := request(perigee.DialectAnthropic, flash, parts...).Prompt()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if remembered == "unseen" {
			b.StopTimer()
			for i := range size / length {
				parts[2*i].Text = perigee.Plain(said(fmt.Sprint(n), i))
			}
			b.StartTimer()
		}
		restored, _ := m.restore(b.Context(), p, newScope(perigee.Client{}, p, models.Gemini.Reasoning()))
		if got := restored.Contents[1].Parts[len(parts)-2].Signature; (got == "S") != (remembered == "all") {
			b.Fatalf("the last text has %q", got)
		}
	}
}

// The reasoning of a forwarded request whose messages have a call each, of which nothing is known.
func BenchmarkRecallMessages(b *testing.B) {
	m := NewMemory(Options{})
	m.KeepIn(&shelf{})
	defer func() { _ = m.Close(b.Context()) }()
	req := request(perigee.DialectOpenAIChat, flash)
	p, _ := req.Prompt()
	list := make([]perigee.Recalled, 24)
	for i := range list {
		list[i].Calls = []string{fmt.Sprintf("call_%d", i)}
	}
	b.ReportAllocs()
	for b.Loop() {
		r := recall{ctx: b.Context(), memory: m, scope: newScope(perigee.Client{}, p, models.Gemini.Reasoning()), req: req}
		if r.Messages(list); list[0].Known != nil {
			b.Fatal("reasoning was found")
		}
	}
}

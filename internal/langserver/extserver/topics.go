package extserver

import (
	"errors"
	"maps"
	"sync"
)

// A Row is a value with its version: 1 when the row is new, and more with each change. A row that
// was deleted and is written again has a higher version than before, so that a reader which
// compares versions takes it for new.
type Row struct {
	Value string
	ETag  int64
}

// An Update is a change of one row.
type Update struct {
	Key     string
	Row     Row // zero if the row was deleted
	Deleted bool
}

func (u Update) size() int { return len(u.Key) + len(u.Row.Value) }

// rowOverhead is the approximate memory of a row in addition to its key and its value.
const rowOverhead = 64

// topicLimits bound a store.
type topicLimits struct {
	Bytes   int // rows of all topics together
	Topics  int // with rows or subscriptions
	Keys    int // of one topic
	Updates int // that wait for one subscription
	Waiting int // bytes of these updates; a single update may be larger
}

// defaultTopicLimits are the limits of the Extension Server.
var defaultTopicLimits = topicLimits{Bytes: 64 << 20, Topics: 1_000, Keys: 10_000, Updates: 256, Waiting: 4 << 20}

// Errors of a store and of its subscriptions.
var (
	errTopicsFull = errors.New("the store is full: delete rows first")
	ErrSlow       = errors.New("updates were read too slowly: subscribe again for a new snapshot")
	ErrClosed     = errors.New("the store is closed")
)

// A topicStore has topics of rows. A topic without rows is the same as one that was never written.
type topicStore struct {
	limits topicLimits

	mu     sync.Mutex
	topics map[string]*topic // those with rows or subscriptions
	bytes  int
	closed bool

	deleted map[rowName]int64 // the last versions of deleted rows, at most limits.Keys
	floor   int64             // at least the last version of every deleted row that is not in deleted
}

type topic struct {
	rows          map[string]Row
	subscriptions map[*Subscription]struct{}
}

// newTopics returns an empty store.
func newTopics(limits topicLimits) *topicStore {
	return &topicStore{limits: limits, topics: map[string]*topic{}, deleted: map[rowName]int64{}}
}

// Set writes a row of the server itself, to which the limits do not apply. Like Push, it never
// waits for subscriptions.
func (s *topicStore) Set(name, key, value string) { _ = s.put(name, key, value, false) }

// Push writes a row for the language server, within the limits.
func (s *topicStore) Push(name, key, value string) error { return s.put(name, key, value, true) }

// put writes a row and announces it to the subscriptions of the topic.
func (s *topicStore) put(name, key, value string, limited bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[name]
	var before Row
	had := false
	if t != nil {
		before, had = t.rows[key]
	}
	more := len(value) - len(before.Value)
	if !had {
		more += len(key) + rowOverhead
	}
	switch {
	case s.closed:
		return ErrClosed
	case limited && (more > 0 && s.bytes+more > s.limits.Bytes ||
		t == nil && len(s.topics) >= s.limits.Topics ||
		t != nil && !had && len(t.rows) >= s.limits.Keys):
		return errTopicsFull
	}
	if t == nil {
		t = s.add(name)
	}
	if !had {
		of := rowName{name, key}
		before.ETag = max(s.deleted[of], s.floor)
		delete(s.deleted, of)
	}
	row := Row{Value: value, ETag: before.ETag + 1}
	t.rows[key] = row
	s.bytes += more
	t.announce(Update{Key: key, Row: row}, s.limits)
	return nil
}

// Delete removes a row and announces that. A row that is not there is announced as well: the
// language server may have it.
func (s *topicStore) Delete(name, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[name]
	if t == nil || s.closed {
		return
	}
	if row, ok := t.rows[key]; ok {
		s.bytes -= len(key) + len(row.Value) + rowOverhead
		delete(t.rows, key)
		s.noteDeleted(rowName{name, key}, row.ETag)
	}
	t.announce(Update{Key: key, Deleted: true}, s.limits)
	s.prune(name)
}

// noteDeleted records the last version of a row. If there are too many, later new rows of all
// names start above all of them.
func (s *topicStore) noteDeleted(of rowName, version int64) {
	if len(s.deleted) >= s.limits.Keys {
		for _, other := range s.deleted {
			s.floor = max(s.floor, other)
		}
		clear(s.deleted)
	}
	s.deleted[of] = version
}

// Subscribe returns the rows of a topic, and a subscription to every change after them. ended is
// called once, in a goroutine of its own, if the store ends the subscription, so that a reader
// that is blocked elsewhere is notified.
func (s *topicStore) Subscribe(name string, ended func()) (map[string]Row, *Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := &Subscription{store: s, topic: name, ended: ended, ready: make(chan struct{}, 1)}
	if s.closed {
		sub.end(ErrClosed)
		return map[string]Row{}, sub
	}
	t := s.topics[name]
	if t == nil {
		t = s.add(name)
	}
	t.subscriptions[sub] = struct{}{}
	return maps.Clone(t.rows), sub
}

// Rows returns the rows of a topic.
func (s *topicStore) Rows(name string) map[string]Row {
	rows, sub := s.Subscribe(name, nil)
	sub.Close()
	return rows
}

// Close ends every subscription with ErrClosed. The store accepts no more rows.
func (s *topicStore) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, t := range s.topics {
		for sub := range t.subscriptions {
			sub.end(ErrClosed)
		}
		clear(t.subscriptions)
	}
}

func (s *topicStore) add(name string) *topic {
	t := &topic{rows: map[string]Row{}, subscriptions: map[*Subscription]struct{}{}}
	s.topics[name] = t
	return t
}

// prune removes a topic that has neither rows nor subscriptions.
func (s *topicStore) prune(name string) {
	if t := s.topics[name]; t != nil && len(t.rows) == 0 && len(t.subscriptions) == 0 {
		delete(s.topics, name)
	}
}

// announce queues an update for every subscription, and ends the ones that have no room for it.
func (t *topic) announce(u Update, limits topicLimits) {
	for sub := range t.subscriptions {
		if !sub.add(u, limits) {
			delete(t.subscriptions, sub)
		}
	}
}

package find

import (
	"context"
	"os"
	"sync"
	"time"

	"perigee/internal/lib/vscdb"
)

// Where the IDE keeps its list of conversations. The legacy key is of versions before 1.16.5.
const (
	summariesKey = "antigravityUnifiedStateSync.trajectorySummaries"
	legacyKey    = "jetskiStateSync.agentManagerInitState"
)

// StateDatabase lists the conversations in a state.vscdb, the database of the IDE. It is read from a copy, and again only when it
// has changed. The IDE writes it with a delay of up to a minute, so it shows what there was rather than what there is.
func StateDatabase(path string) Source { return &stateDatabase{path: path} }

type stateDatabase struct {
	path string

	mu    sync.Mutex
	stamp stamp
	last  Listing
}

func (*stateDatabase) Name() string { return "state.vscdb" }

func (s *stateDatabase) Summaries(ctx context.Context) (Listing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := stampOf(s.path)
	if err != nil {
		return Listing{}, err
	}
	if now.settled() && now == s.stamp {
		return s.last, nil
	}
	values, err := vscdb.Read(ctx, s.path, summariesKey)
	if _, found := values[summariesKey]; err == nil && !found {
		values, err = vscdb.Read(ctx, s.path, legacyKey) // has access tokens, and is not read without need
	}
	if err != nil {
		s.stamp = stamp{}
		return Listing{}, err
	}
	s.stamp, s.last = now, decodeState(values)
	return s.last, nil
}

// decodeState reads the list of conversations from the values of the database.
func decodeState(values map[string][]byte) (l Listing) {
	var r wireReader
	value, found := values[summariesKey]
	read := r.topic
	if old, ok := values[legacyKey]; ok && !found {
		value, found, read = old, true, r.legacy
	}
	message, err := decodeBase64(value)
	switch {
	case !found:
		r.add("it has no list of conversations")
	case value == nil:
		r.add("its list of conversations is too large")
	case err != nil:
		r.add("its list of conversations: %v", err)
	default:
		l = read(message)
	}
	l.Degraded = r.lines()
	return l
}

// A stamp shows whether a database was written to.
type stamp struct {
	size, logSize       int64
	modified, logModify time.Time
}

// settled reports whether a change would be noticed: two within the resolution of the file system are not.
func (s stamp) settled() bool {
	return time.Since(s.modified) > clockSlack && time.Since(s.logModify) > clockSlack
}

// latest is the time of the last change.
func (s stamp) latest() time.Time {
	if s.logModify.After(s.modified) {
		return s.logModify
	}
	return s.modified
}

func stampOf(path string) (s stamp, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return s, err
	}
	s.size, s.modified = info.Size(), info.ModTime()
	if log, err := os.Stat(path + "-wal"); err == nil {
		s.logSize, s.logModify = log.Size(), log.ModTime()
	}
	return s, nil
}

package trajectory

import (
	"context"
	"encoding/base64"
	"os"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	unifiedstatesyncpb "perigee/gen/exa/unified_state_sync_pb"
	"perigee/internal/lib/vscdb"
)

// summariesKey is the key of the IDE's list of conversations, since version 1.16.5.
const summariesKey = "antigravityUnifiedStateSync.trajectorySummaries"

// StateDatabaseSource lists the conversations in a state.vscdb, the database of the IDE. It is
// read from a copy, and again only when it has changed. The IDE writes it with a delay of up to a
// minute, so it may be out of date by that much.
func StateDatabaseSource(path string) Source {
	s := &stateDatabase{path: path}
	return Source{"state.vscdb", s.summaries}
}

type stateDatabase struct {
	path string

	mu    sync.Mutex
	stamp stamp
	last  Listing
}

func (s *stateDatabase) summaries(ctx context.Context) (Listing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := stampOf(s.path)
	if err != nil {
		return Listing{}, err
	}
	if now.isStable() && now == s.stamp {
		return s.last, nil
	}
	values, err := vscdb.Read(ctx, s.path, summariesKey)
	if err != nil {
		s.stamp = stamp{}
		return Listing{}, err
	}
	s.stamp, s.last = now, decodeState(values)
	return s.last, nil
}

// decodeState reads the list of conversations from the values of the database: the base64 of a
// topic with rows that have the base64 of summaries by ID.
func decodeState(values map[string][]byte) (l Listing) {
	value, found := values[summariesKey]
	switch {
	case !found:
		l.note("it has no list of conversations")
	case value == nil:
		l.note("its list of conversations is too large")
	}
	var topic unifiedstatesyncpb.Topic
	if err := decodeMessage(string(value), &topic); err != nil {
		l.note("its list of conversations cannot be read")
	}
	for id, row := range topic.GetData() {
		var m jetskicortexpb.CascadeTrajectorySummary
		if err := decodeMessage(row.GetValue(), &m); err != nil {
			l.note("a row of its list of conversations cannot be read")
			continue
		}
		l.keep(summaryOf(id, &m))
	}
	return l
}

// decodeMessage reads a message from base64.
func decodeMessage(text string, into proto.Message) error {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	return proto.Unmarshal(data, into)
}

// A stamp shows whether a database was written to.
type stamp struct {
	size, logSize       int64
	modified, logModify time.Time
}

// isStable reports whether a later change would be noticed: two changes within the resolution of
// the file system's clock would not.
func (s stamp) isStable() bool {
	return time.Since(s.modified) > clockSlack && time.Since(s.logModify) > clockSlack
}

// latest returns the time of the last change.
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

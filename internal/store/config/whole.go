package config

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"

	"perigee/internal/lib/atomicfile"
)

// A Mark is what the configuration of a running daemon has. The next start compares itself with it,
// because a daemon can be started while its file is being written: without keys it would answer
// everyone, without upstreams from its simulator, and without the URL of its database it would
// write to another one.
type Mark struct {
	Keys      bool `json:"keys"`
	Upstreams bool `json:"upstreams"`
	Database  bool `json:"database"`
}

// Mark returns the mark of a configuration.
func (l *Loaded) Mark() Mark {
	c := l.Config
	return Mark{len(c.Keys) > 0, len(c.Upstreams) > 0, !c.Store.URL.IsZero()}
}

// lost returns the sections that a mark has and the configuration lacks.
func (l *Loaded) lost(before Mark) string {
	var sections []string
	now := l.Mark()
	if before.Keys && !now.Keys {
		sections = append(sections, "keys")
	}
	if before.Upstreams && !now.Upstreams {
		sections = append(sections, "upstreams")
	}
	if before.Database && !now.Database {
		sections = append(sections, "store.url")
	}
	return strings.Join(sections, " and ")
}

// WriteMark writes a mark, if the file has another one.
func WriteMark(file string, m Mark) error {
	if ReadMark(file) == m {
		return nil
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return atomicfile.Write(file, append(data, '\n'))
}

// ReadMark reads a mark. One that is missing or broken is zero: a configuration has lost nothing then.
func ReadMark(file string) (m Mark) {
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxMark { // opening a pipe would wait for a writer
		return Mark{}
	}
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &m) != nil {
		return Mark{}
	}
	return m
}

const maxMark = 64 << 10

// How long a file that has lost a section has to stay the same until it counts, and how often it is
// read. Editors and tools take less to write a file.
const (
	wholeTime = 5 * time.Second
	wholePoll = 200 * time.Millisecond
)

// AwaitWhole returns a configuration that was loaded for a start. If it has lost a section since the
// last start, AwaitWhole reports that, and loads it again until nothing is missing, or until it has
// not changed for the reported time.
func AwaitWhole(ctx context.Context, src Sources, loaded *Loaded, before Mark, report func(lost string, wait time.Duration)) (*Loaded, error) {
	var err error
	reported := false
	for since := time.Now(); ; {
		lost := ""
		if err == nil {
			lost = loaded.lost(before)
			if lost == "" || slices.ContainsFunc(loaded.inputs, input.isStream) {
				return loaded, nil
			}
		}
		if time.Since(since) >= wholeTime {
			return loaded, err
		}
		if !reported {
			reported = true
			report(lost, wholeTime)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wholePoll):
		}
		next, failed := Load(src)
		if (failed == nil) != (err == nil) || err == nil && !slices.Equal(next.inputs, loaded.inputs) {
			since = time.Now()
		}
		loaded, err = next, failed
	}
}

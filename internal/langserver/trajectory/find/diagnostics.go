package find

import (
	"context"
	"errors"

	"perigee/internal/lib/rawjson"
)

// Diagnostics lists the recent conversations of a window of the IDE. read returns what antigravity.getDiagnostics returns, or what
// the extension says of it: the result of state/recent, or a list of conversations. The diagnostics have logs, names and
// addresses; nothing of them is kept but the IDs, titles, times and counts of conversations.
func Diagnostics(read func(ctx context.Context) ([]byte, error)) Source { return diagnostics{read} }

type diagnostics struct {
	read func(ctx context.Context) ([]byte, error)
}

func (diagnostics) Name() string { return "diagnostics of the IDE" }

func (s diagnostics) Summaries(ctx context.Context) (Listing, error) {
	data, err := s.read(ctx)
	if err != nil {
		return Listing{}, err
	}
	return decodeRecent(data)
}

// maxDiagnostics bounds the diagnostics; those that were seen have less than 200 KB.
const maxDiagnostics = 64 << 20

var errLargeDiagnostics = errors.New("the diagnostics have more than 64 MiB")

// decodeRecent reads recent conversations. The diagnostics are a text that is JSON.
func decodeRecent(data []byte) (Listing, error) {
	if len(data) > maxDiagnostics {
		return Listing{}, errLargeDiagnostics
	}
	for range 2 {
		c := rawjson.NewCursor(data)
		if rawjson.Check(data) != nil {
			return Listing{}, errNotJSON
		}
		if c.Kind() != rawjson.String {
			break
		}
		data = []byte(c.String())
	}
	if rawjson.Check(data) != nil {
		return Listing{}, errNotJSON
	}
	r := jsonReader{Cursor: rawjson.NewCursor(data)}
	var l Listing
	switch r.Kind() {
	case rawjson.Array:
		l = r.list("the list of conversations", rawjson.Array, "modified")
	case rawjson.Object:
		found := false
		for key := range r.Object() {
			switch name := string(key); name {
			case "recentTrajectories":
				found = true
				l = r.list(name, rawjson.Array, "lastModifiedTime")
			case "conversations", "before":
				found = true
				l = r.list(name, rawjson.Array, "modified")
			}
		}
		if !found {
			r.add("recentTrajectories is missing")
		}
	default:
		return Listing{}, errNotJSON
	}
	l.Degraded = r.lines()
	return l, nil
}

package find

import (
	"context"
	"errors"

	"perigee/internal/langserver/lsclient"
	"perigee/internal/lib/rawjson"
)

// LanguageServer lists the conversations of a language server.
func LanguageServer(ls *lsclient.Client) Source { return languageServer{ls} }

type languageServer struct{ client *lsclient.Client }

func (languageServer) Name() string { return "language server" }

func (s languageServer) Summaries(ctx context.Context) (Listing, error) {
	data, err := s.client.ConversationsJSON(ctx)
	if err != nil {
		return Listing{}, err
	}
	return decodeAll(data)
}

var errNotJSON = errors.New("the answer is not JSON of the known form")

// decodeAll reads the answer to GetAllCascadeTrajectories. A server without conversations leaves the map out.
func decodeAll(data []byte) (l Listing, err error) {
	r := jsonReader{Cursor: rawjson.NewCursor(data)}
	if rawjson.Check(data) != nil || r.Kind() != rawjson.Object {
		return Listing{}, errNotJSON
	}
	members, found := 0, false
	for key := range r.Object() {
		members++
		if string(key) == "trajectorySummaries" {
			found = true
			l = r.list("trajectorySummaries", rawjson.Object, "lastModifiedTime")
		}
	}
	if !found && members > 0 {
		r.add("trajectorySummaries is missing")
	}
	l.Degraded = r.lines()
	return l, nil
}

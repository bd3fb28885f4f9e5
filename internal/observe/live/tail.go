package live

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"perigee"
	"perigee/internal/lib/match"
	"perigee/internal/lib/redact"
	"perigee/internal/server/mount"
)

// Path is where calls are followed.
const Path = "/v1/live"

// The events of lines in addition to the kinds of updates.
const (
	// Following is the first line: the calls that begin from now on are seen.
	Following = "following"
	// Behind is the last line for a client that reads too slowly to be sent every call.
	Behind = "behind"
)

// A Line is something that happened to a call.
type Line struct {
	Event string            `json:"event"` // began, started, thinking, text, tool, ended
	ID    string            `json:"id,omitempty"`
	Text  string            `json:"text,omitempty"`  // a piece of thinking or text, or the name of a tool
	Call  *perigee.TraceRow `json:"call,omitempty"`  // began, started, ended
	Error string            `json:"error,omitempty"` // of ended: the error
}

// PointOptions are the dependencies of the point.
type PointOptions struct {
	Hub *Hub
	// Redactor returns a redactor of all current secrets.
	Redactor func() *redact.Redactor
	Audit    func(ctx context.Context, e perigee.AuditEntry) // records that calls are read
}

// maxFollowers is how many clients may follow calls at once.
const maxFollowers = 64

// Point returns the path, for the owner only.
func Point(opts PointOptions) mount.Point {
	seats := make(chan struct{}, maxFollowers)
	follow := func(w http.ResponseWriter, r *http.Request) error {
		select {
		case seats <- struct{}{}:
			defer func() { <-seats }()
			return opts.follow(w, r)
		default:
			return perigee.Errorf(perigee.ClassCapacity, "%d clients follow calls already", maxFollowers).WithHint("end one of them")
		}
	}
	return mount.Methods{http.MethodGet: follow}.At(Path, mount.Admin)
}

// follow answers GET /v1/live?errors=&model=&client=&account=&key=&text= with lines of JSON until
// the client leaves.
func (o PointOptions) follow(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	f, err := newFilter(query)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	updates := o.Hub.Subscribe(ctx)
	e := perigee.AuditEntry{Action: perigee.AuditTraceList, Object: object(query)}
	if err != nil {
		e.Result = string(perigee.AsError(err).Class)
	}
	o.Audit(ctx, e)
	if err != nil {
		return err
	}
	mount.StreamHeader(w.Header(), "application/jsonl")
	out := json.NewEncoder(w)
	write := func(l Line) bool {
		return out.Encode(l) == nil && http.NewResponseController(w).Flush() == nil
	}
	if !write(Line{Event: Following}) {
		return nil
	}
	s := stream{options: o, filter: f, open: map[string]*followedCall{}}
	for u := range updates {
		for _, line := range s.lines(u) {
			if !write(line) {
				return nil
			}
		}
	}
	if r.Context().Err() == nil && !o.Hub.Stopped() {
		write(Line{Event: Behind})
	}
	return nil
}

// object returns the query for the audit log, without key, which may be a key itself.
func object(query url.Values) string {
	words := []string{"live"}
	for _, name := range []string{"errors", "model", "client", "account"} {
		if value := query.Get(name); value != "" {
			words = append(words, name+"="+mount.Shorten(value))
		}
	}
	return strings.Join(words, " ")
}

// A filter selects the calls that are shown.
type filter struct {
	errors, text                bool
	model, client, account, key string
}

func newFilter(query url.Values) (f filter, err error) {
	if err = mount.KnownParameters(query, "errors", "model", "client", "account", "key", "text"); err != nil {
		return f, err
	}
	f = filter{model: query.Get("model"), client: query.Get("client"), account: query.Get("account"), key: query.Get("key")}
	if f.errors, err = mount.BoolParameter(query, "errors"); err != nil {
		return f, err
	}
	f.text, err = mount.BoolParameter(query, "text")
	return f, err
}

// shows reports whether a call is shown, from its record so far. A call that has not ended has not
// failed.
func (f *filter) shows(c *perigee.Call) bool {
	fits := func(pattern string, values ...string) bool {
		if pattern == "" {
			return true
		}
		for _, value := range values {
			if match.Pattern(strings.ToLower(pattern), strings.ToLower(value)) {
				return true
			}
		}
		return false
	}
	return (!f.errors || c.Class != "") && fits(f.model, c.ModelAsked, c.Model) && fits(f.client, c.Client.Name) && fits(f.account, c.Account) &&
		fits(f.key, c.Client.Key)
}

// A stream makes lines of updates.
type stream struct {
	options PointOptions
	filter  filter
	open    map[string]*followedCall
}

// A followedCall is an open call that is shown.
type followedCall struct {
	Growing      // the thinking or the text
	last    Kind // of the last piece
}

func (s *stream) lines(u Update) []Line {
	id := u.Call.ID
	switch u.Kind {
	case Thinking, Text, Tool:
		return s.pieces(u)
	}
	call := *u.Call
	call.Model = s.redact(call.Model) // before the call is recorded it is as the provider names it
	switch u.Kind {
	case Ended:
		list := s.rest(id)
		delete(s.open, id)
		if s.filter.shows(&call) {
			list = append(list, Line{Event: u.Kind.String(), ID: id, Call: new(call.TraceRow()), Error: call.Error})
		}
		return list
	}
	if !s.filter.shows(&call) {
		return nil
	}
	if s.open[id] == nil {
		s.open[id] = &followedCall{}
	}
	return []Line{{Event: u.Kind.String(), ID: id, Call: new(call.TraceRow())}}
}

// piece is a line of a piece of an answer, without secrets.
func (s *stream) piece(kind Kind, id, text string) []Line {
	if text == "" {
		return nil
	}
	return []Line{{Event: kind.String(), ID: id, Text: s.redact(text)}}
}

func (s *stream) redact(text string) string {
	if text == "" {
		return text
	}
	return s.options.Redactor().Text(text)
}

// pieces returns the lines of a piece of an answer. The last word of the previous text is complete
// when a piece of another kind begins, and is shown before that.
func (s *stream) pieces(u Update) (list []Line) {
	call, text := s.open[u.Call.ID], u.Text
	if !s.filter.text || call == nil {
		return nil
	}
	if call.last != u.Kind {
		list = s.rest(u.Call.ID)
	}
	if call.last = u.Kind; u.Kind != Tool {
		text = call.Add(text)
	}
	return append(list, s.piece(u.Kind, u.Call.ID, text)...)
}

// rest returns the lines of the text that was held back.
func (s *stream) rest(id string) []Line {
	call := s.open[id]
	if !s.filter.text || call == nil {
		return nil
	}
	return s.piece(call.last, id, call.End())
}

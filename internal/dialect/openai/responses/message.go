package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/rawjson"
)

// A socketRequest is a message of the client's: what it asks for, and the body that says what about.
type socketRequest struct {
	body   []byte // what POST would have got; the members below are blanks in it
	stream string // the name of the stream that its answer belongs to; empty: it has none
	warm   bool   // nothing is to be made, only to be remembered
	notes  []perigee.Note
}

// createEvent is the one type of message that is understood.
const createEvent = "response.create"

// streamNames are what a stream may be called.
var streamNames = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,256}$`)

// decodeSocketRequest reads a message. It writes into it: the members that are about the socket become blanks, so that
// what is left is a body like any other, byte for byte. When the message is refused the request still tells the stream,
// if it has one.
func decodeSocketRequest(message []byte) (*socketRequest, error) {
	r := &socketRequest{body: message}
	var members [][]byte // their names
	err := rawjson.CheckMembers(message, func(name []byte, _ rawjson.Kind) { members = append(members, name) })
	if err == nil && rawjson.NewCursor(message).Kind() != rawjson.Object {
		return r, perigee.Errorf(perigee.ClassInvalid, "a message is an object with a type").WithNext("send type: %s", createEvent)
	}
	if err != nil {
		return r, perigee.Errorf(perigee.ClassInvalid, "invalid message: %w", err)
	}
	kind := ""
	end := bytes.LastIndexByte(message, '}')
	for i := len(members) - 1; i >= 0; i-- {
		name := members[i]
		start := cap(message) - cap(name) - 1 // the name is a piece of the message, after a quote
		value := bytes.TrimLeft(message[start+len(name)+2:end], " \t\r\n:")
		mine, problem := r.member(string(name), rawjson.NewCursor(value), &kind)
		if problem != nil && err == nil {
			err = problem
		}
		if mine {
			blank(message[start:end])
		}
		end = start
	}
	if err != nil {
		return r, err
	}
	if kind != createEvent {
		return r, perigee.Errorf(perigee.ClassInvalid, "messages of type %q are not understood here", shorten(kind)).
			WithNext("perigee understands %s", createEvent)
	}
	dropLastComma(message)
	return r, nil
}

// member reads a member, if it is about the socket.
func (r *socketRequest) member(name string, c *rawjson.Cursor, kind *string) (mine bool, err error) {
	switch name {
	case "type":
		*kind = c.String()
	case "stream_id":
		r.stream = c.String()
		if c.Err() != nil || !streamNames.MatchString(r.stream) {
			r.stream = ""
			return true, invalidStream
		}
	case "generate":
		r.warm = c.Kind() != rawjson.Null && !c.Bool()
	case "stream":
		if c.Kind() != rawjson.Null && !c.Bool() {
			r.notes = append(r.notes, perigee.Note{Action: perigee.NoteDropped, Subject: "stream"})
		}
	case "background":
		if c.Bool() {
			r.notes = append(r.notes, perigee.Note{Action: perigee.NoteDropped, Subject: "background"})
		}
	default:
		return false, nil
	}
	if c.Err() != nil {
		return true, perigee.Errorf(perigee.ClassInvalid, "invalid message: %s: %w", name, c.Err())
	}
	return true, nil
}

func blank(b []byte) {
	for i := range b {
		b[i] = ' '
	}
}

// dropLastComma blanks the comma that stands before nothing, after the last members have become blanks.
func dropLastComma(object []byte) {
	rest := bytes.TrimRight(object[:bytes.LastIndexByte(object, '}')], " \t\r\n")
	if len(rest) > 0 && rest[len(rest)-1] == ',' {
		rest[len(rest)-1] = ' '
	}
}

// A socketProblem is an error about the socket itself, in the API's own words, as the cause of an error.
type socketProblem struct{ code, param string }

func (p *socketProblem) Error() string { return p.code }

// The errors that the API has words for.
var (
	invalidStream = &perigee.Error{Class: perigee.ClassInvalid,
		Message: "stream_id is not 1 to 256 letters, digits, underscores, hyphens and periods",
		Cause:   &socketProblem{"invalid_stream_id", "stream_id"}}
	tooManyStreams = &perigee.Error{Class: perigee.ClassInvalid,
		Message: "this socket has 32 streams with names already", Next: "use one of them, or open another socket",
		Cause: &socketProblem{"websocket_stream_limit_reached", "stream_id"}}
	socketTooOld = &perigee.Error{Class: perigee.ClassInvalid,
		Message: "this socket has been open for 60 minutes", Next: "open another one",
		Cause: &socketProblem{code: "websocket_connection_limit_reached"}}
)

// encodeSocketError is an error as the event that tells it: what an answer to POST would have had as its status, its
// headers and its body.
func encodeSocketError(status int, header http.Header, body []byte, stream string) []byte {
	event := struct {
		Type    string            `json:"type"`
		Status  int               `json:"status"`
		Error   json.RawMessage   `json:"error"`
		Headers map[string]string `json:"headers,omitempty"`
		Stream  string            `json:"stream_id,omitempty"`
	}{Type: "error", Status: status, Error: json.RawMessage("null"), Headers: map[string]string{}, Stream: stream}
	if start, end, ok := rawjson.Find(body, "error"); ok {
		event.Error = body[start:end]
	}
	for name, values := range header {
		if name == "Retry-After" || strings.HasPrefix(name, "X-Perigee-") {
			event.Headers[strings.ToLower(name)] = values[0]
		}
	}
	return plainJSON(event)
}

// socketErrorBody is the body of an error, also of one about the socket.
func socketErrorBody(status int, e *perigee.Error) []byte {
	problem, ok := e.Cause.(*socketProblem)
	if !ok {
		return openai.EncodeResponsesError(status, e)
	}
	var param *string
	if problem.param != "" {
		param = &problem.param
	}
	return plainJSON(map[string]any{"error": map[string]any{
		"message": e.Error(), "type": "invalid_request_error", "param": param, "code": problem.code,
	}})
}

// plainJSON writes v on one line, and its texts as they are.
func plainJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // texts, numbers, and JSON of our own
	return bytes.TrimSpace(b.Bytes())
}

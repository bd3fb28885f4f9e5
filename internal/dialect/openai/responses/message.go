package responses

import (
	"bytes"
	"maps"
	"slices"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/lazyregexp"
	"perigee/internal/lib/rawjson"
)

// A Message is a message of a client on a WebSocket: its type and its body.
type Message struct {
	Body   []byte // the body as for POST; the members of the message itself are blanked
	Stream string // the name of the stream that its answer belongs to; empty if it has none
	Warm   bool   // no answer is generated; the input is only remembered
	Notes  []perigee.Note
}

// createEvent is the one type of message that is understood.
const createEvent = "response.create"

// streamNames matches valid names of streams of up to maxStreamName bytes.
var streamNames = lazyregexp.New(`^[A-Za-z0-9_.-]+$`)

const maxStreamName = 256

// DecodeMessage reads a message. It modifies message: the members that concern the socket are
// blanked, so that the rest is a body as for POST. If there is an error, the Message still has the
// stream, if there is one.
func DecodeMessage(message []byte) (*Message, error) {
	m := &Message{Body: message}
	var members []rawjson.Member
	_, err := rawjson.CheckMembers(message, func(member rawjson.Member) { members = append(members, member) })
	if err == nil && rawjson.NewCursor(message).Kind() != rawjson.Object {
		return m, openai.Invalid("a message is an object with a type").WithHint("send type: %s", createEvent)
	}
	if err != nil {
		return m, openai.Invalid("invalid message: %w", err)
	}
	kind := ""
	next := bytes.LastIndexByte(message, '}')
	for _, member := range slices.Backward(members) {
		mine, problem := m.member(string(member.Name), rawjson.NewCursor(message[member.Start:member.End]), &kind)
		if problem != nil && err == nil {
			err = problem
		}
		if mine {
			blank(message[member.At:next])
		}
		next = member.At
	}
	if err != nil {
		return m, err
	}
	if kind != createEvent {
		return m, openai.Invalid("messages of type %q are not understood here", openai.Brief(kind)).
			WithHint("perigee understands %s", createEvent)
	}
	dropLastComma(message)
	return m, nil
}

// member reads a member, if it is about the socket.
func (m *Message) member(name string, c *rawjson.Cursor, kind *string) (mine bool, err error) {
	switch name {
	case "type":
		*kind = c.String()
	case "stream_id":
		m.Stream = c.String()
		if c.Err() != nil || len(m.Stream) > maxStreamName || !streamNames().MatchString(m.Stream) {
			m.Stream = ""
			return true, ErrStreamName
		}
	case "generate":
		m.Warm = c.Kind() != rawjson.Null && !c.Bool()
	case "stream":
		if c.Kind() != rawjson.Null && !c.Bool() {
			m.Notes = append(m.Notes, perigee.Note{Action: perigee.NoteDropped, Subject: "stream"})
		}
	case "background":
		if c.Bool() {
			m.Notes = append(m.Notes, perigee.Note{Action: perigee.NoteDropped, Subject: "background"})
		}
	default:
		return false, nil
	}
	if c.Err() != nil {
		return true, openai.Invalid("invalid message: %s: %w", name, c.Err())
	}
	return true, nil
}

func blank(b []byte) {
	for i := range b {
		b[i] = ' '
	}
}

// dropLastComma blanks a trailing comma, after the last members were blanked.
func dropLastComma(object []byte) {
	rest := bytes.TrimRight(object[:bytes.LastIndexByte(object, '}')], " \t\r\n")
	if len(rest) > 0 && rest[len(rest)-1] == ',' {
		rest[len(rest)-1] = ' '
	}
}

// The errors of the API for the limits of a socket.
var (
	ErrStreamName = &perigee.Error{Class: perigee.ClassInvalid,
		Message: "stream_id is not 1 to 256 letters, digits, underscores, hyphens and periods",
		Cause:   &perigee.Fault{Param: "stream_id", Code: "invalid_stream_id"}}
	ErrTooManyStreams = &perigee.Error{Class: perigee.ClassInvalid,
		Message: "this socket has 32 streams with names already", Hint: "use one of them, or open another socket",
		Cause: &perigee.Fault{Param: "stream_id", Code: "websocket_stream_limit_reached"}}
	ErrSocketTooOld = &perigee.Error{Class: perigee.ClassInvalid,
		Message: "this socket has been open for 60 minutes", Hint: "open another one",
		Cause: &perigee.Fault{Code: "websocket_connection_limit_reached"}}
)

// EncodeErrorMessage writes an error as a message, with the status and the headers of an answer to
// POST.
func EncodeErrorMessage(status int, err *perigee.Error, headers map[string]string, stream string) []byte {
	var w rawjson.Writer
	w.Object().Members(`"type":"error"`).Key("status").Int(int64(status)).Key("error").Raw(openai.ErrorObject(status, err))
	if len(headers) > 0 {
		w.Key("headers").Object()
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			w.AnyKey(name).String(headers[name])
		}
		w.EndObject()
	}
	if stream != "" {
		w.Key("stream_id").String(stream)
	}
	return w.EndObject().Buf
}

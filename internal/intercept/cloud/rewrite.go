package cloud

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"perigee/internal/lib/rawjson"
)

// A span is the position of a value in a text. The zero span means that there is none.
type span struct{ start, end int }

func (s span) of(text []byte) []byte { return text[s.start:s.end] }

func (s span) isString(text []byte) bool { return s.end > 0 && text[s.start] == '"' }

// An envelope has the positions of the members of a request that perigee reads or changes.
type envelope struct {
	text                                            []byte
	project, model, requestID, requestType, request span
	twice                                           bool // one of them occurs twice
}

// openEnvelope reads the top level of a body. A body in which a name occurs twice is an error,
// because the cloud might read the other one.
func openEnvelope(text []byte) (envelope, error) {
	if err := rawjson.Check(text); err != nil {
		return envelope{}, err
	}
	e, ok := scanEnvelope(text)
	if !ok || e.cascade() != "" && (e.request.end == 0 || text[e.request.start] != '{') {
		return envelope{}, errors.New("the body has no request in it")
	}
	return e, nil
}

// scanEnvelope reads the top level of any text. ok is false if it is not a JSON object. Without a
// check of the text the spans may be wrong, but they are inside the text.
func scanEnvelope(text []byte) (e envelope, ok bool) {
	c := rawjson.NewCursor(text)
	if c.Kind() != rawjson.Object {
		return envelope{}, false
	}
	e.text = text
	for key := range c.Object() {
		var at *span
		switch string(key) {
		case "project":
			at = &e.project
		case "model":
			at = &e.model
		case "requestId":
			at = &e.requestID
		case "requestType":
			at = &e.requestType
		case "request":
			at = &e.request
		default:
			continue
		}
		e.twice = e.twice || at.end > 0
		at.start, at.end = c.Span()
	}
	return e, true
}

// modelName returns the model, or "" if the envelope names none.
func (e *envelope) modelName() string {
	if !e.model.isString(e.text) {
		return ""
	}
	return rawjson.NewCursor(e.model.of(e.text)).String()
}

// cascade returns the conversation that an agent request belongs to, or "" if the request does not
// come from an agent.
func (e *envelope) cascade() string {
	if !e.requestID.isString(e.text) {
		return ""
	}
	if e.requestType.end > 0 && string(e.requestType.of(e.text)) != `"agent"` {
		return ""
	}
	id, ok := strings.CutPrefix(rawjson.NewCursor(e.requestID.of(e.text)).String(), "agent/")
	if !ok {
		return ""
	}
	cascade, _, ok := strings.Cut(id, "/")
	if !ok {
		return ""
	}
	return cascade
}

// guessCascade returns the conversation that the start of a body names, or "" if it names none.
func guessCascade(beginning []byte) string {
	e, _ := scanEnvelope(beginning)
	if e.twice || e.requestID.end == len(beginning) { // the name may be incomplete
		return ""
	}
	return e.cascade()
}

// fitProject returns the edit that sets the project of an envelope, if it has another one.
func (e *envelope) fitProject(project string) []rawjson.Edit {
	wanted := rawjson.AppendString(nil, project)
	if project == "" || !e.project.isString(e.text) || e.project.end-e.project.start == len(`""`) || bytes.Equal(e.project.of(e.text), wanted) {
		return nil
	}
	return []rawjson.Edit{{Start: e.project.start, End: e.project.end, New: wanted}}
}

// carry returns the edits that put a call into an envelope. Only the session and the labels of the
// language server's request are kept: all other members belong to its own prompt.
func (e *envelope) carry(call Call) []rawjson.Edit {
	w := rawjson.Writer{Buf: make([]byte, 0, len(call.Request)+1024)}
	w.Object()
	copyMembers(&w, call.Request, func(name string) bool { return !ofLanguageServer(name) })
	copyMembers(&w, e.request.of(e.text), ofLanguageServer)
	w.EndObject()
	model := rawjson.AppendString(nil, call.Model)
	if e.model.end > 0 {
		return []rawjson.Edit{{Start: e.request.start, End: e.request.end, New: w.Buf}, {Start: e.model.start, End: e.model.end, New: model}}
	}
	w.Key("model").Raw(model) // after the request
	return []rawjson.Edit{{Start: e.request.start, End: e.request.end, New: w.Buf}}
}

// splice applies edits, in any order.
func (e *envelope) splice(edits ...rawjson.Edit) []byte {
	slices.SortFunc(edits, func(a, b rawjson.Edit) int { return a.Start - b.Start })
	return rawjson.Splice(e.text, edits...)
}

// ofLanguageServer reports whether a member of the language server's request is kept.
func ofLanguageServer(name string) bool { return name == "sessionId" || name == "labels" }

// copyMembers copies members of an object unchanged.
func copyMembers(w *rawjson.Writer, object []byte, wanted func(name string) bool) {
	c := rawjson.NewCursor(object)
	for key := range c.Object() {
		if wanted(string(key)) {
			w.AnyKey(string(key)).Raw(c.Raw())
		}
	}
}

package gemini

import (
	"errors"
	"fmt"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// RewriteModel returns body with every member that names the model naming another one, and body
// itself when there is none to change.
func RewriteModel(body []byte, model string) ([]byte, error) {
	var edits []rawjson.Edit
	resource := rawjson.AppendString(nil, "models/"+model)
	err := modelMembers(body, func(c *rawjson.Cursor, _ string) {
		start, end := c.Span()
		edits = append(edits, rawjson.Edit{Start: start, End: end, New: resource})
	})
	if err != nil {
		return nil, invalidMembers(err)
	}
	if len(edits) == 0 {
		return body, nil
	}
	return rawjson.Splice(body, edits...), nil
}

// otherModel finds a member that names another model than the URL. It returns the path of the
// member and that name.
func otherModel(body []byte, model string) (place, other string, err error) {
	err = modelMembers(body, func(c *rawjson.Cursor, at string) {
		if c.Kind() != rawjson.String {
			return
		}
		if name := ModelID(c.String()); name != ModelID(model) && name != "" && other == "" {
			place, other = at, name
		}
	})
	return place, other, err
}

// maxBatch is how many requests the API takes in one batchEmbedContents.
const maxBatch = 100

var errBatch = fmt.Errorf("BatchEmbedContentsRequest.requests: at most %d requests can be in one batch", maxBatch)

// modelMembers visits each member that names the model: model, generateContentRequest.model,
// requests[].model. It stops with errBatch if there are more requests than the API accepts, so that
// the memory of visit is bounded.
func modelMembers(body []byte, visit func(c *rawjson.Cursor, at string)) error {
	c := rawjson.NewCursor(body)
	for key := range c.Object() {
		switch camel(key) {
		case "model":
			visit(c, "model")
		case "generateContentRequest":
			modelOf(c, "generateContentRequest", visit)
		case "requests":
			for i := range c.List() {
				if i == maxBatch {
					return errBatch
				}
				modelOf(c, fmt.Sprintf("requests[%d]", i), visit)
			}
		}
	}
	return c.Err()
}

// invalidMembers returns the client's error for an error of modelMembers.
func invalidMembers(err error) *perigee.Error {
	if errors.Is(err, errBatch) {
		return perigee.Errorf(perigee.ClassInvalid, "%w", err).WithHint("split it into several batches")
	}
	return invalidBody(err)
}

// modelOf visits the model of the object that comes next, if it is one.
func modelOf(c *rawjson.Cursor, at string, visit func(c *rawjson.Cursor, at string)) {
	if c.Kind() != rawjson.Object {
		return
	}
	for key := range c.Object() {
		if string(key) == "model" {
			visit(c, at+".model")
		}
	}
}

// thinksBeyondOutput reports whether a generationConfig has a thinking budget that is not below its
// own limit of the whole answer.
func thinksBeyondOutput(config []byte) bool {
	var limit, budget *int64
	c := rawjson.NewCursor(config)
	read(c, nil, "maxOutputTokens", &limit, "thinkingConfig", func() { read(c, nil, "thinkingBudget", &budget) })
	return c.Err() == nil && limit != nil && budget != nil && *limit > 0 && *budget >= *limit
}

// SetThinking returns body with another thinkingConfig, and everything else unchanged.
func SetThinking(body []byte, thinking *perigee.Thinking) []byte {
	w, outer := writer{}, rawjson.Writer{}
	w.thinking(thinking)
	config := w.Buf
	alone := outer.Object().Key("thinkingConfig").Raw(config).EndObject().Buf
	at, end, kind := lastMember(body, "generationConfig")
	switch kind {
	case rawjson.None:
		outside, _ := rawjson.NewCursor(body).Span()
		return insertMember(body, outside, "generationConfig", alone)
	case rawjson.Object:
	default: // null, which is as good as absent
		return rawjson.Splice(body, rawjson.Edit{Start: at, End: end, New: alone})
	}
	start, stop, kind := lastMember(body[at:end], "thinkingConfig")
	if kind == rawjson.None {
		return insertMember(body, at, "thinkingConfig", config)
	}
	return rawjson.Splice(body, rawjson.Edit{Start: at + start, End: at + stop, New: config})
}

// lastMember returns the position and the kind of the value of a member, by its lowerCamel name; of
// the last one if an object has both spellings, which is the one that counts. The kind is None if there
// is none.
func lastMember(object []byte, name string) (start, end int, kind rawjson.Kind) {
	c := rawjson.NewCursor(object)
	for key := range c.Object() {
		if camel(key) == name {
			kind = c.Kind()
			start, end = c.Span()
		}
	}
	return start, end, kind
}

// insertMember inserts a member at the beginning of the object that starts at an offset.
func insertMember(body []byte, at int, name string, value []byte) []byte {
	member := append([]byte(`"`+name+`":`), value...)
	for range rawjson.NewCursor(body[at:]).Object() {
		member = append(member, ',') // the object is not empty
		break
	}
	return rawjson.Splice(body, rawjson.Edit{Start: at + 1, End: at + 1, New: member})
}

package openai

import (
	"fmt"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// Brief cuts a text of a client to a length that fits into a message.
func Brief(s string) string { return perigee.Clip(s, 60) }

// Invalid is an error that the client can avoid.
func Invalid(format string, args ...any) *perigee.Error {
	return perigee.Errorf(perigee.ClassInvalid, format, args...)
}

// Wrong is an error about one field, which clients find in param.
func Wrong(param, format string, args ...any) *perigee.Error {
	message := param + ": " + fmt.Sprintf(format, args...)
	return &perigee.Error{Class: perigee.ClassInvalid, Message: message, Cause: &perigee.Fault{Param: param}}
}

// OpenBody validates a body as a JSON object, and returns its index and a cursor before it. It refuses
// a body that is cut into more pieces than its size allows.
func OpenBody(body []byte) (*rawjson.Document, *rawjson.Cursor, error) {
	doc, err := rawjson.Open(body, nil)
	if err != nil {
		return nil, nil, InvalidBody(err)
	}
	if err := doc.Count.Err(len(body)); err != nil {
		return nil, nil, TooManyPieces(err)
	}
	c, err := openObject(doc.Cursor())
	return doc, c, err
}

// openObject returns a cursor before the object that a valid body must be: null would pass for an
// empty one.
func openObject(c *rawjson.Cursor) (*rawjson.Cursor, error) {
	if got := c.Kind(); got != rawjson.Object {
		return nil, InvalidBody(fmt.Errorf("want %v, found %v", rawjson.Object, got))
	}
	return c, nil
}

// TooManyPieces is the error for a body that is cut into more pieces than its size allows.
func TooManyPieces(err error) error {
	return Invalid("%w", err).WithHint("join small messages and parts, or send less")
}

// InvalidBody returns the error for a body that is invalid JSON or has a member of the wrong type.
func InvalidBody(err error) *perigee.Error {
	return &perigee.Error{Class: perigee.ClassInvalid, Message: fmt.Sprintf("invalid JSON payload: %v", err), Cause: err}
}

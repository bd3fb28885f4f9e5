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

// CheckBody validates a body as JSON, and refuses one that is cut into more pieces than its size
// allows.
func CheckBody(body []byte) error {
	count, err := rawjson.CheckCount(body)
	if err != nil {
		return InvalidBody(err)
	}
	if err := count.Err(len(body)); err != nil {
		return TooManyPieces(err)
	}
	return nil
}

// TooManyPieces is the error for a body that is cut into more pieces than its size allows.
func TooManyPieces(err error) error {
	return Invalid("%w", err).WithHint("join small messages and parts, or send less")
}

// InvalidBody returns the error for a body that is invalid JSON or has a member of the wrong type.
func InvalidBody(err error) *perigee.Error {
	return &perigee.Error{Class: perigee.ClassInvalid, Message: fmt.Sprintf("invalid JSON payload: %v", err), Cause: err}
}

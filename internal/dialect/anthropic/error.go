// Package anthropic is the Anthropic Messages dialect. It is pure: no network, no clock, no globals that
// change.
package anthropic

import (
	"encoding/json"

	"perigee"
)

// errorTypes are the words that this dialect has for the classes.
var errorTypes = map[perigee.Class]string{
	perigee.ClassInvalid:         "invalid_request_error",
	perigee.ClassUnauthenticated: "authentication_error",
	perigee.ClassForbidden:       "permission_error",
	perigee.ClassNotFound:        "not_found_error",
	perigee.ClassExhausted:       "rate_limit_error",
	perigee.ClassRateLimited:     "rate_limit_error",
	perigee.ClassCapacity:        "overloaded_error",
	perigee.ClassIdentity:        "permission_error",
	perigee.ClassVerification:    "permission_error",
}

// EncodeError writes an error in the shape of this dialect; the class stands in details.
func EncodeError(status int, err *perigee.Error) []byte {
	kind, ok := errorTypes[err.Class]
	switch {
	case status == 413:
		kind = "request_too_large"
	case !ok:
		kind = "api_error"
	}
	type details struct {
		Class perigee.Class `json:"class"`
	}
	type body struct {
		Type    string  `json:"type"`
		Message string  `json:"message"`
		Details details `json:"details"`
	}
	raw, _ := json.Marshal(struct {
		Type  string `json:"type"`
		Error body   `json:"error"`
	}{"error", body{Type: kind, Message: err.Error(), Details: details{err.Class}}})
	return raw
}

package anthropic

import (
	"errors"
	"fmt"
	"net/http"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/rawjson"
)

// errorTypes are the error types of the classes in this dialect.
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

// threadRefused returns the error for a client that keeps its conversation on the server, so that
// it sends the whole conversation instead: the official libraries do so by themselves when they
// read this code.
func threadRefused() *perigee.Error {
	return &perigee.Error{Class: perigee.ClassInvalid,
		Message: "thread: conversations are not kept here", Hint: "send the whole conversation with each request",
		Cause: &perigee.Fault{Param: "thread", Code: "thread_unsupported_request"}}
}

// EncodeError writes the error of a call in the shape of this dialect; the class is in details.
func EncodeError(status int, err *perigee.Error, call string) []byte {
	kind, ok := errorTypes[err.Class]
	switch {
	case status == http.StatusRequestEntityTooLarge:
		kind = "request_too_large"
	case status == http.StatusGatewayTimeout:
		kind = "timeout_error"
	case status == http.StatusForbidden:
		kind = "permission_error"
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case !ok:
		kind = "api_error"
	}
	var w rawjson.Writer
	w.Object().Members(`"type":"error"`).Key("error").Object().Key("type").String(kind).Key("message").String(errorMessage(err))
	w.Key("details").Object().Key("class").String(string(err.Class))
	// Clients recognize these members and send the request without the field. A code of another API
	// is not about a field of this one.
	if fault, ok := errors.AsType[*perigee.Fault](err.Cause); ok && fault.Param != "" && fault.Code != "" {
		w.Key("error_code").String(fault.Code).Key("unsupported").Array().String(fault.Param).EndArray()
	}
	return w.EndObject().EndObject().Key("request_id").String(perigee.RequestID(call)).EndObject().Buf
}

// promptTooLong is the token in the message of a gateway by which Claude Code recognizes that it has
// to compact the conversation.
const promptTooLong = " (capability_rejected: prompt_too_long)"

// errorMessage returns the message of an error. For a conversation that is too long it is the
// message of Anthropic's API, by which agents recognize that they have to compact it.
func errorMessage(err *perigee.Error) string {
	switch long := providererr.AsTooLong(err); {
	case long == nil:
		return err.Error()
	case !long.Known():
		return "prompt is too long" + promptTooLong
	default:
		return fmt.Sprintf("prompt is too long: %d tokens > %d maximum", long.Tokens, long.Limit) + promptTooLong
	}
}

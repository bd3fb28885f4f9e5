package gemini

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/rawjson"
)

// rpcNames are the google.rpc names of the classes, as this dialect writes them.
var rpcNames = map[perigee.Class]string{
	perigee.ClassInvalid:         "INVALID_ARGUMENT",
	perigee.ClassUnauthenticated: "UNAUTHENTICATED",
	perigee.ClassForbidden:       "PERMISSION_DENIED",
	perigee.ClassNotFound:        "NOT_FOUND",
	perigee.ClassExhausted:       "RESOURCE_EXHAUSTED",
	perigee.ClassRateLimited:     "RESOURCE_EXHAUSTED",
	perigee.ClassCapacity:        "UNAVAILABLE",
	perigee.ClassIdentity:        "PERMISSION_DENIED",
	perigee.ClassVerification:    "PERMISSION_DENIED",
	perigee.ClassCanceled:        "CANCELLED",
	perigee.ClassUnavailable:     "UNAVAILABLE",
	perigee.ClassUnimplemented:   "UNIMPLEMENTED",
	perigee.ClassInternal:        "INTERNAL",
}

// rpcName returns the google.rpc code name of an error; some statuses are more specific than its
// class.
func rpcName(status int, class perigee.Class) string {
	switch {
	case status == 504 && class == perigee.ClassUnavailable:
		return "DEADLINE_EXCEEDED"
	case status == 500 && class == perigee.ClassUnavailable:
		return "INTERNAL"
	case status == 403:
		return "PERMISSION_DENIED"
	case status == 429:
		return "RESOURCE_EXHAUSTED"
	}
	return rpcNames[class]
}

// EncodeError writes an error as a google.rpc.Status with the given HTTP status. The provider's own
// details stay; the class is in an additional ErrorInfo of perigee's domain, and the delay in a
// RetryInfo, which clients of Gemini read instead of the header.
func EncodeError(status int, err *perigee.Error) []byte {
	w := writer{}
	w.Object().Key("error").Object().Key("code").Int(int64(status))
	w.text("message", message(err))
	w.text("status", rpcName(status, err.Class))
	w.Key("details").Array()
	hasDelay := false // the provider's details have the delay
	for _, detail := range err.Details {
		w.Raw(detail)
		hasDelay = hasDelay || namesDelay(detail)
	}
	w.Object().Members(`"@type":"type.googleapis.com/google.rpc.ErrorInfo"`)
	w.text("reason", strings.ToUpper(string(err.Class)))
	w.Members(`"domain":"perigee"`).EndObject()
	if err.Retry > 0 && !hasDelay {
		w.Object().Members(`"@type":"type.googleapis.com/google.rpc.RetryInfo"`)
		w.text("retryDelay", strconv.FormatFloat(err.Retry.Seconds(), 'f', -1, 64)+"s")
		w.EndObject()
	}
	return w.EndArray().EndObject().EndObject().Buf
}

// message returns the message of an error. For a conversation that is too long it is the provider's
// own, also where another provider refused it.
func message(err *perigee.Error) string {
	switch long := providererr.AsTooLong(err); {
	case long == nil:
		return err.Error()
	case !long.Known():
		return "The input token count exceeds the maximum number of tokens allowed."
	default:
		return fmt.Sprintf("The input token count (%d) exceeds the maximum number of tokens allowed (%d).", long.Tokens, long.Limit)
	}
}

// DecodeError reads a provider's error: a google.rpc.Status, bare, wrapped in {"error": …} or in a
// list of one. A body without words (a proxy's HTML) becomes an error about that. status is the HTTP
// status of the answer, 0 when the error came inside a stream; it is read from the error then.
func DecodeError(status int, body []byte) *perigee.Error {
	e := providererr.StatusError(status, body)
	if e.Message == "" {
		e.Message = providererr.Explanation(body)
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("the provider answered with status %d and did not explain it", status)
	}
	return e
}

// CheckAnswer returns an error if an answer in one piece, which came with status 200, is not JSON
// or is itself an error.
func CheckAnswer(body []byte) error {
	if err := rawjson.Check(body); err != nil {
		return &perigee.Error{Class: perigee.ClassUnavailable, Message: "the provider sent something that is not JSON", Cause: err}
	}
	c := rawjson.NewCursor(body)
	for key := range c.Object() {
		if string(key) == "error" && c.Kind() == rawjson.Object {
			return DecodeError(0, c.Raw())
		}
	}
	return nil
}

// namesDelay reports whether a detail is a RetryInfo with a delay.
func namesDelay(detail []byte) bool {
	c := rawjson.NewCursor(detail)
	for key := range c.Object() {
		if string(key) == "retryDelay" {
			d, err := time.ParseDuration(c.String())
			return err == nil && d > 0
		}
	}
	return false
}

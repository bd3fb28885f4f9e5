package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/rawjson"
)

// errorTypes are the error types of the classes in this dialect.
var errorTypes = map[perigee.Class]string{
	perigee.ClassInvalid:         "invalid_request_error",
	perigee.ClassUnauthenticated: "authentication_error",
	perigee.ClassForbidden:       "permission_error",
	perigee.ClassNotFound:        "invalid_request_error",
	perigee.ClassExhausted:       "insufficient_quota",
	perigee.ClassRateLimited:     "rate_limit_error",
	perigee.ClassIdentity:        "permission_error",
	perigee.ClassVerification:    "permission_error",
}

// EncodeError writes an error in the shape of this dialect. param is the path of the invalid field,
// and code is the API's own code if clients act on it, or else the class.
func EncodeError(status int, err *perigee.Error) []byte {
	return Wrap("error", ErrorObject(status, err))
}

// EncodeStreamError writes an error for a stream that has begun, which has no header for the class:
// it has the member class.
func EncodeStreamError(status int, err *perigee.Error) []byte {
	return Wrap("error", encodeObject(status, err, err.Class))
}

// ErrorObject returns the error object without its envelope.
func ErrorObject(status int, err *perigee.Error) []byte { return encodeObject(status, err, "") }

// encodeObject writes the error itself, with a class if that is not empty.
func encodeObject(status int, err *perigee.Error, class perigee.Class) []byte {
	var param *string
	if wrong, ok := errors.AsType[*rawjson.TypeError](err); ok && wrong.Path != "" {
		param = &wrong.Path
	}
	if fault, ok := errors.AsType[*perigee.Fault](err.Cause); ok && fault.Param != "" {
		param = &fault.Param
	}
	raw, _ := json.Marshal(struct {
		Message string        `json:"message"`
		Type    string        `json:"type"`
		Param   *string       `json:"param"`
		Code    string        `json:"code"`
		Class   perigee.Class `json:"class,omitempty"`
		Resets  int64         `json:"resets_at,omitempty"`
	}{Message: message(err), Type: errorType(status, err), Param: param, Code: cmp.Or(Code(err), string(err.Class)), Class: class,
		Resets: resetsAt(err)})
	return raw
}

// message returns the message of an error. For a conversation that is too long it is OpenAI's own.
func message(err *perigee.Error) string {
	switch long := providererr.AsTooLong(err); {
	case long == nil:
		return err.Error()
	case !long.Known():
		return "Your input exceeds the context window of this model. Please adjust your input and try again."
	default:
		return fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. "+
			"Please reduce the length of the messages.", long.Limit, long.Tokens)
	}
}

// Code returns OpenAI's own code for an error, if it is one that clients act on; otherwise it is
// empty.
func Code(err *perigee.Error) string {
	if fault, ok := errors.AsType[*perigee.Fault](err.Cause); ok && fault.Code != "" {
		return fault.Code
	}
	switch {
	case errors.Is(err, perigee.ErrBadKey):
		return "invalid_api_key"
	case providererr.AsTooLong(err) != nil:
		return "context_length_exceeded"
	case err.Class == perigee.ClassExhausted:
		return "insufficient_quota"
	case err.Class == perigee.ClassRateLimited:
		return "rate_limit_exceeded"
	}
	return ""
}

// errorType returns the error type of this dialect for an error.
func errorType(status int, err *perigee.Error) string {
	word, ok := errorTypes[err.Class]
	switch {
	case err.Class == perigee.ClassExhausted && resetsAt(err) > 0:
		return "usage_limit_reached"
	case err.Class == perigee.ClassExhausted && err.Retry > 0:
		return "rate_limit_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case !ok:
		return "server_error"
	}
	return word
}

// soon is the longest time for which agents may wait for quota by themselves. Codex waits silently
// for the whole Retry-After, unless the type of the error is usage_limit_reached: then it ends and
// shows the time in resets_at, in seconds since 1970. It treats insufficient_quota as an unpaid
// bill.
const soon = time.Minute

// resetsAt returns when a used-up quota resets, or 0 if that is unknown or soon.
func resetsAt(err *perigee.Error) int64 {
	if err.Class != perigee.ClassExhausted || err.Retry <= soon || err.RetryAt.IsZero() {
		return 0
	}
	return err.RetryAt.Unix()
}

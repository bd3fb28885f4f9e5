package openai

import (
	"cmp"
	"encoding/json"
	"errors"

	"perigee"
	"perigee/internal/rawjson"
)

// errorTypes are the words that this dialect has for the classes.
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

// EncodeError writes an error in the shape of this dialect. In param stands the place in the request that is to blame, and in code
// the API's own name for the problem where it has one, else the class.
func EncodeError(_ int, err *perigee.Error) []byte { return Wrap("error", ErrorObject(err)) }

// ErrorObject is the error itself, without what is around it.
func ErrorObject(err *perigee.Error) []byte {
	var param *string
	code := string(err.Class)
	if wrong, ok := errors.AsType[*rawjson.TypeError](err); ok && wrong.Path != "" {
		param = &wrong.Path
	}
	if fault, ok := errors.AsType[*perigee.Fault](err.Cause); ok {
		code = cmp.Or(fault.Code, code)
		if fault.Param != "" {
			param = &fault.Param
		}
	}
	raw, _ := json.Marshal(struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}{Message: err.Error(), Type: ErrorType(err.Class), Param: param, Code: code})
	return raw
}

// ErrorType is the word that this dialect has for a class.
func ErrorType(class perigee.Class) string {
	if word, ok := errorTypes[class]; ok {
		return word
	}
	return "server_error"
}

package openai

import (
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

// EncodeError writes an error in the shape of this dialect; the class stands in code, and in param the place in the
// request where a value has the wrong type.
func EncodeError(_ int, err *perigee.Error) []byte {
	kind, ok := errorTypes[err.Class]
	if !ok {
		kind = "server_error"
	}
	var param *string
	if wrong, ok := errors.AsType[*rawjson.TypeError](err); ok && wrong.Path != "" {
		param = &wrong.Path
	}
	type body struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}
	raw, _ := json.Marshal(struct {
		Error body `json:"error"`
	}{body{Message: err.Error(), Type: kind, Param: param, Code: string(err.Class)}})
	return raw
}

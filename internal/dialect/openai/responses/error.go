package responses

import (
	"cmp"
	"fmt"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/rawjson"
)

// invalidBody is an error about the body. Without a param it is about all of it.
func invalidBody(param string, err error) *perigee.Error {
	what := err.Error()
	if t, ok := err.(*rawjson.TypeError); ok && joinPath(param, t.Path) != "" {
		param, what = joinPath(param, t.Path), "want "+t.Want+", found "+t.Got
	}
	if param == "" {
		return &perigee.Error{Class: perigee.ClassInvalid, Message: "invalid request body: " + what, Cause: err}
	}
	return &perigee.Error{Class: perigee.ClassInvalid, Message: "invalid request body: " + param + ": " + what, Cause: &perigee.Fault{Param: param}}
}

func joinPath(base, path string) string {
	switch {
	case base == "":
		return path
	case path == "" || path[0] == '[':
		return base + path
	}
	return base + "." + path
}

// wrong is an error about one parameter.
func wrong(param, format string, args ...any) *perigee.Error {
	return &perigee.Error{Class: perigee.ClassInvalid, Message: param + ": " + fmt.Sprintf(format, args...), Cause: &perigee.Fault{Param: param}}
}

// EncodeError writes an error of the Responses API. Its code is the API's own where it has one for the
// problem, else the class.
func EncodeError(_ int, err *perigee.Error) []byte {
	return openai.Wrap("error", errorObject(err))
}

func errorObject(err *perigee.Error) []byte {
	fault, ok := err.Cause.(*perigee.Fault)
	if !ok {
		return openai.ErrorObject(err)
	}
	w := writer{}
	w.lit(`{"message":`)
	w.str(err.Error())
	w.lit(`,"type":`)
	w.str(openai.ErrorType(err.Class))
	w.lit(`,"param":`)
	if fault.Param == "" {
		w.lit(`null`)
	} else {
		w.str(fault.Param)
	}
	w.lit(`,"code":`)
	w.str(cmp.Or(fault.Code, string(err.Class)))
	w.lit(`}`)
	return w.buf
}

// failureCodes are what a response that failed says of itself. Agents decide by them whether to try again.
var failureCodes = map[perigee.Class]string{
	perigee.ClassInvalid:     "invalid_prompt",
	perigee.ClassRateLimited: "rate_limit_exceeded",
	perigee.ClassExhausted:   "insufficient_quota",
}

func failureCode(class perigee.Class) string {
	if code, ok := failureCodes[class]; ok {
		return code
	}
	return "server_error"
}

package openai

import (
	"perigee"
	"perigee/internal/rawjson"
)

// A responsesProblem says which parameter is at fault, in the API's own words, as the cause of an error.
type responsesProblem struct{ param, code string }

func (p *responsesProblem) Error() string { return p.param + " " + p.code }

// responsesInvalid is an error about the body. Without a param it is about all of it.
func responsesInvalid(param string, err error) *perigee.Error {
	e := &perigee.Error{Class: perigee.ClassInvalid, Message: "invalid request body: " + err.Error(), Cause: err}
	if param != "" {
		e.Message = "invalid request body: " + param + ": " + err.Error()
	}
	if t, ok := err.(*rawjson.TypeError); ok {
		param = responsesJoinPath(param, t.Path)
	}
	if param != "" {
		e.Message = "invalid request body: " + responsesTypeMessage(param, err)
		e.Cause = &responsesProblem{param: param}
	}
	return e
}

func responsesTypeMessage(param string, err error) string {
	if t, ok := err.(*rawjson.TypeError); ok {
		return param + ": want " + t.Want + ", found " + t.Got
	}
	return param + ": " + err.Error()
}

func responsesJoinPath(base, path string) string {
	switch {
	case base == "":
		return path
	case path == "" || path[0] == '[':
		return base + path
	}
	return base + "." + path
}

// EncodeResponsesError writes an error of the Responses API. Its code is the API's own where it has one for the
// problem, else the class.
func EncodeResponsesError(status int, err *perigee.Error) []byte {
	problem, ok := err.Cause.(*responsesProblem)
	if !ok {
		return EncodeError(status, err)
	}
	kind, ok := errorTypes[err.Class]
	if !ok {
		kind = "server_error"
	}
	code := problem.code
	if code == "" {
		code = string(err.Class)
	}
	w := responsesWriter{}
	w.lit(`{"error":{"message":`)
	w.str(err.Error())
	w.lit(`,"type":`)
	w.str(kind)
	w.lit(`,"param":`)
	w.str(problem.param)
	w.lit(`,"code":`)
	w.str(code)
	w.lit(`}}`)
	return w.buf
}

// responsesErrorCodes are what a response that failed says of itself. Agents decide by them whether to try again.
var responsesErrorCodes = map[perigee.Class]string{
	perigee.ClassInvalid:     "invalid_prompt",
	perigee.ClassRateLimited: "rate_limit_exceeded",
	perigee.ClassExhausted:   "insufficient_quota",
}

func responsesErrorCode(class perigee.Class) string {
	if code, ok := responsesErrorCodes[class]; ok {
		return code
	}
	return "server_error"
}

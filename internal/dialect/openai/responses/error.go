package responses

import (
	"cmp"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
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
	return &perigee.Error{Class: perigee.ClassInvalid, Message: "invalid request body: " + param + ": " + what,
		Cause: &perigee.Fault{Param: param}}
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

// failureCode returns the error code of a failed response. Agents decide by it whether to retry. A
// used-up quota has the code of a rate limit: the answer to the retry has the reset time.
func failureCode(err *perigee.Error) string {
	if err.Class == perigee.ClassExhausted && err.Retry > 0 {
		return "rate_limit_exceeded"
	}
	code := openai.Code(err)
	if code == "" && err.Class == perigee.ClassInvalid {
		code = "invalid_prompt"
	}
	return cmp.Or(code, "server_error")
}

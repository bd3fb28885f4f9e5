package ollama

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/rawjson"
)

// A serverError is an error of the server: {"error":"…"}. The text may be the error of the process
// that runs the model, as JSON; models in Ollama's cloud add the address at which to sign in.
type serverError struct {
	message, signIn string
	tokens, limit   int64 // of a prompt that is too long, where they are known
}

// DecodeError reads an error. status is the HTTP status of the answer, or 0 if the error came inside
// an answer with status 200.
func DecodeError(status int, body []byte) *perigee.Error {
	var e serverError
	if rawjson.Check(body) == nil {
		e.read(rawjson.NewCursor(body), 0)
	}
	e.message = cmp.Or(e.message, providererr.Explanation(body))
	long := &perigee.Error{Class: perigee.ClassInvalid, Status: http.StatusBadRequest, Message: e.message}
	if e.tokens > 0 && e.limit > 0 {
		return TooLong(e.tokens, e.limit)
	}
	if providererr.AsTooLong(long) != nil {
		return long
	}
	out := &perigee.Error{Class: providererr.StatusClass(status), Status: status, Message: e.message}
	switch {
	case out.Message == "" && status == 0:
		out.Message = "the server reported an error inside its answer and did not explain it"
	case out.Message == "":
		out.Message = fmt.Sprintf("the server answered with status %d and did not explain it", status)
	case e.signIn != "":
		// About this model alone: other models of the server need no account.
		out.Class, out.Status = perigee.ClassForbidden, http.StatusForbidden
		out.Message = "the model runs in Ollama's cloud, and the server is not signed in: " + e.message
		out.Hint = "run ollama signin on the machine of the server"
	case strings.Contains(e.message, "does not support embeddings"): // with status 501, as if the method were missing
		out.Class, out.Status = perigee.ClassInvalid, http.StatusBadRequest
		out.Hint = "choose an embedding model, such as nomic-embed-text"
	case strings.Contains(e.message, "requires more system memory"):
		out.Hint = "lower context of the upstream in the configuration, or use a smaller model"
	}
	return out
}

// TooLong returns the error about a prompt that does not fit into a model, in words that
// providererr.AsTooLong reads.
func TooLong(tokens, limit int64) *perigee.Error {
	return &perigee.Error{Class: perigee.ClassInvalid, Status: http.StatusBadRequest,
		Message: fmt.Sprintf("the request (%d tokens) exceeds the available context size (%d tokens)", tokens, limit)}
}

// maxErrors is how many errors may be inside each other.
const maxErrors = 4

// read reads an error, or the object around it.
func (e *serverError) read(c *rawjson.Cursor, depth int) {
	switch kind := c.Kind(); {
	case kind == rawjson.String:
		e.message = c.String()
		inner := []byte(e.message)
		if strings.HasPrefix(e.message, "{") && depth < maxErrors && rawjson.Check(inner) == nil {
			e.read(rawjson.NewCursor(inner), depth+1)
		}
		return
	case kind != rawjson.Object || depth == maxErrors:
		c.Skip()
		return
	}
	for key := range c.Object() {
		switch name := string(key); {
		case name == "error":
			e.read(c, depth+1)
		case name == "message" && c.Kind() == rawjson.String:
			e.message = c.String()
		case name == "signin_url" && c.Kind() == rawjson.String:
			e.signIn = c.String()
		case name == "n_prompt_tokens" && c.Kind() == rawjson.Number:
			e.tokens = c.Int64()
		case name == "n_ctx" && c.Kind() == rawjson.Number:
			e.limit = c.Int64()
		}
	}
}

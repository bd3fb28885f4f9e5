package openai

import (
	"fmt"
	"slices"
	"strconv"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/rawjson"
)

// A providerError is the error of a provider, in any of the shapes that servers of these APIs have:
//
//	{"error":{"message":…,"type":…,"param":…,"code":"…" or 400}}
//	{"error":"…"}, and {"error":"…","code":"…"}
//	{"object":"error","message":…,"type":…,"code":…}
//	{"message":…}, and {"detail":…}
//
// Any other shape is left to providererr.Explanation.
type providerError struct {
	message, kind, param, code string
	tokens, limit              int64 // of a prompt that is too long, where llama.cpp reports them
}

// DecodeError reads the error of a provider. status is the HTTP status of the answer, or 0 if the
// error came inside an answer with status 200. A body without words, such as the page of a proxy,
// becomes an error about that.
func DecodeError(status int, body []byte) *perigee.Error {
	e := &providerError{}
	if rawjson.Check(body) == nil {
		e.read(rawjson.NewCursor(body))
	}
	if e.message == "" {
		e.message = providererr.Explanation(body)
	}
	if status == 0 {
		status = statusOf(e.code)
	}
	out := &perigee.Error{Class: e.class(status), Status: status, Message: e.text(status)}
	switch {
	case e.is(perigee.SlowDown):
		out.Cause = &perigee.Fault{Code: perigee.SlowDown}
	case e.param != "":
		out.Cause = &perigee.Fault{Param: e.param}
	}
	return out
}

// read reads the members of an error, or of the object around it.
func (e *providerError) read(c *rawjson.Cursor) {
	switch c.Kind() {
	case rawjson.String:
		e.message = c.String()
		return
	case rawjson.Array: // of one error
		for range c.Array() {
			e.read(c)
		}
		return
	case rawjson.Object:
	default:
		c.Skip()
		return
	}
	for key := range c.Object() {
		switch string(key) {
		case "error":
			e.read(c)
		case "message", "detail":
			if said := scalar(c); said != "" {
				e.message = said
			}
		case "type":
			e.kind = scalar(c)
		case "param":
			e.param = scalar(c)
		case "code":
			e.code = scalar(c)
		case "n_prompt_tokens":
			e.tokens, _ = strconv.ParseInt(scalar(c), 10, 64)
		case "n_ctx":
			e.limit, _ = strconv.ParseInt(scalar(c), 10, 64)
		}
	}
}

// scalar reads a string or a number as text, and skips anything else.
func scalar(c *rawjson.Cursor) string {
	switch c.Kind() {
	case rawjson.String:
		return c.String()
	case rawjson.Number:
		return string(c.Raw())
	}
	c.Skip()
	return ""
}

// statusOf returns the status that is the code of an error inside an answer, or 0 if it is none.
func statusOf(code string) int {
	n, err := strconv.Atoi(code)
	if err != nil || n < 400 || n > 599 {
		return 0
	}
	return n
}

// is reports whether the code or the type is one of the words.
func (e *providerError) is(words ...string) bool {
	return slices.Contains(words, e.code) || slices.Contains(words, e.kind)
}

// tooLong reports whether the prompt does not fit into the model.
func (e *providerError) tooLong() bool {
	return e.is("context_length_exceeded", "exceed_context_size_error") ||
		providererr.AsTooLong(&perigee.Error{Class: perigee.ClassInvalid, Message: e.message}) != nil
}

// text returns the message. If a prompt is too long, it has the sizes if they are known, in a
// form that providererr.AsTooLong reads.
func (e *providerError) text(status int) string {
	switch {
	case e.tooLong() && e.tokens > 0 && e.limit > 0:
		return fmt.Sprintf("the request (%d tokens) exceeds the available context size (%d tokens)", e.tokens, e.limit)
	case e.tooLong() && providererr.AsTooLong(&perigee.Error{Class: perigee.ClassInvalid, Message: e.message}) == nil:
		return "the prompt is too long: " + e.message
	case e.message == "" && status == 0:
		return "the provider reported an error inside its answer and did not explain it"
	case e.message == "":
		return fmt.Sprintf("the provider answered with status %d and did not explain it", status)
	}
	return e.message
}

// class returns the class of an error. Codes and types are more specific than the status.
func (e *providerError) class(status int) perigee.Class {
	class := providererr.StatusClass(status)
	general := class == perigee.ClassInvalid || class == perigee.ClassUnavailable
	switch {
	case e.tooLong():
		return perigee.ClassInvalid
	case e.is("insufficient_quota", "billing_hard_limit_reached", "billing_error", "usage_limit_reached"):
		return perigee.ClassExhausted
	case e.is("server_is_overloaded", "overloaded_error", perigee.SlowDown):
		return perigee.ClassCapacity
	case general && e.is("model_not_found"):
		return perigee.ClassNotFound
	case general && e.is("rate_limit_exceeded"):
		return perigee.ClassRateLimited
	case status == 0 && e.is("invalid_request_error", "invalid_prompt", "invalid_encrypted_content", "previous_response_not_found"):
		return perigee.ClassInvalid
	}
	return class
}

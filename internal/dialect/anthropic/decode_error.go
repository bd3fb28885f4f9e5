package anthropic

import (
	"fmt"
	"net/http"
	"strings"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/rawjson"
)

// DecodeError reads the error of a provider. status is the HTTP status of the answer, or 0 if the
// error came inside an answer with status 200. A body without words, such as the page of a proxy,
// becomes an error about that.
//
// A limit is of class rate_limited. Whether its quota is used up depends on the headers of the
// answer, which the caller has.
func DecodeError(status int, body []byte) *perigee.Error {
	var kind, message string
	if rawjson.Check(body) == nil {
		kind, message = readError(rawjson.NewCursor(body))
	}
	if message == "" {
		message = providererr.Explanation(body)
	}
	if status == 0 {
		status = errorStatus[kind]
	}
	switch {
	case message != "":
	case status == 0:
		message = "the provider reported an error inside its answer and did not explain it"
	default:
		message = fmt.Sprintf("the provider answered with status %d and did not explain it", status)
	}
	return &perigee.Error{Class: errorClass(status, kind, message), Status: status, Message: message}
}

// readError reads the type and the message of an error, or of the object around it.
func readError(c *rawjson.Cursor) (kind, message string) {
	if c.Kind() != rawjson.Object {
		return "", textOf(c)
	}
	for key := range c.Object() {
		switch string(key) {
		case "error":
			return readError(c)
		case "type":
			kind = textOf(c)
		case "message":
			message = textOf(c)
		}
	}
	return kind, message
}

// errorStatus are the statuses of errors inside an answer.
var errorStatus = map[string]int{
	"invalid_request_error": http.StatusBadRequest, "authentication_error": http.StatusUnauthorized,
	"billing_error": http.StatusPaymentRequired, "permission_error": http.StatusForbidden, "not_found_error": http.StatusNotFound,
	"request_too_large": http.StatusRequestEntityTooLarge, "rate_limit_error": http.StatusTooManyRequests,
	"api_error": http.StatusInternalServerError, "timeout_error": http.StatusGatewayTimeout, "overloaded_error": providererr.StatusOverloaded,
}

// errorClass returns the class of an error. An account without credit is refused with status 400.
func errorClass(status int, kind, message string) perigee.Class {
	switch {
	case providererr.AsTooLong(&perigee.Error{Class: perigee.ClassInvalid, Message: message}) != nil:
		return perigee.ClassInvalid
	case strings.Contains(message, "credit balance is too low"), strings.Contains(message, "spend limit"), kind == "billing_error":
		return perigee.ClassExhausted
	}
	return providererr.StatusClass(status)
}

// CheckAnswer returns an error if an answer in one piece, which came with status 200, is not JSON or
// is itself an error.
func CheckAnswer(body []byte) error {
	if err := rawjson.Check(body); err != nil {
		return &perigee.Error{Class: perigee.ClassUnavailable, Message: "the provider sent something that is not JSON", Cause: err}
	}
	c := rawjson.NewCursor(body)
	if c.Kind() != rawjson.Object {
		return perigee.Errorf(perigee.ClassUnavailable, "the provider sent %v where an answer should be", c.Kind())
	}
	for key := range c.Object() {
		if string(key) == "error" && c.Kind() != rawjson.Null {
			return DecodeError(0, body)
		}
	}
	return nil
}

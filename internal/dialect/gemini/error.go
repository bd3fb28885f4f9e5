package gemini

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"perigee"
	"perigee/internal/rawjson"
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

// rpcName is the name that goes with an error; some statuses say more than its class.
func rpcName(status int, class perigee.Class) string {
	switch {
	case status == 504 && class == perigee.ClassUnavailable:
		return "DEADLINE_EXCEEDED"
	case status == 500 && class == perigee.ClassUnavailable:
		return "INTERNAL"
	case status == 403:
		return "PERMISSION_DENIED"
	}
	return rpcNames[class]
}

// EncodeError writes an error as a google.rpc.Status with the given HTTP status. The provider's own
// details stay; the class stands in an ErrorInfo of our domain beside them.
func EncodeError(status int, err *perigee.Error) []byte {
	w := writer{}
	w.open()
	w.key("error")
	w.open()
	code := int64(status)
	w.int("code", &code)
	w.text("message", err.Error())
	w.text("status", rpcName(status, err.Class))
	w.key("details")
	w.list(len(err.Details)+1, func(i int) {
		if i < len(err.Details) {
			w.buf = append(w.buf, err.Details[i]...)
			return
		}
		w.open()
		w.text("@type", "type.googleapis.com/google.rpc.ErrorInfo")
		w.text("reason", strings.ToUpper(string(err.Class)))
		w.text("domain", "perigee")
		w.close()
	})
	w.close()
	w.close()
	return w.buf
}

// classOfStatus judges a provider's answer by its HTTP status alone.
func classOfStatus(status int) perigee.Class {
	switch {
	case status == 401:
		return perigee.ClassUnauthenticated
	case status == 403:
		return perigee.ClassForbidden
	case status == 404:
		return perigee.ClassNotFound
	case status == 429:
		return perigee.ClassRateLimited
	case status == 499:
		return perigee.ClassCanceled
	case status == 501:
		return perigee.ClassUnimplemented
	case status == 529:
		return perigee.ClassCapacity
	case status >= 400 && status < 500:
		return perigee.ClassInvalid
	}
	return perigee.ClassUnavailable
}

// DecodeError reads a provider's error: a google.rpc.Status, bare, wrapped in {"error": …} or in a list of
// one. What is not even JSON (a proxy's HTML) becomes an error that says so. status is the HTTP status of
// the answer, 0 when the error came inside a stream; it is read from the error then.
func DecodeError(status int, body []byte) *perigee.Error {
	e := &perigee.Error{Status: status}
	var reasons []string
	if rawjson.Check(body) == nil {
		reasons = decodeStatus(rawjson.NewCursor(body), e)
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("the provider answered with status %d and did not explain it", status)
	}
	e.Class = classOfStatus(e.Status)
	refine(e, reasons)
	return e
}

// CheckAnswer looks whether an answer in one piece, which came with status 200, is one at all: JSON, and not
// the report of an error.
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

// decodeStatus fills e from a Status and returns the reasons that its details name.
func decodeStatus(c *rawjson.Cursor, e *perigee.Error) (reasons []string) {
	if c.Kind() == rawjson.Array {
		for range c.Array() {
			return decodeStatus(c, e)
		}
		return nil
	}
	for key := range c.Object() {
		switch string(key) {
		case "error":
			if c.Kind() == rawjson.String {
				e.Message = c.String()
			} else {
				reasons = decodeStatus(c, e)
			}
		case "code":
			if c.Kind() == rawjson.Number {
				if code := int(c.Int64()); e.Status == 0 {
					e.Status = code
				}
			}
		case "message":
			e.Message = c.String()
		case "details":
			for range c.Array() {
				raw := c.Raw()
				e.Details = append(e.Details, json.RawMessage(append([]byte(nil), raw...)))
				if r := decodeDetail(rawjson.NewCursor(raw), e); r != "" {
					reasons = append(reasons, r)
				}
			}
		}
	}
	return reasons
}

// decodeDetail takes the reason and the delay out of one detail.
func decodeDetail(c *rawjson.Cursor, e *perigee.Error) (reason string) {
	for key := range c.Object() {
		switch string(key) {
		case "reason":
			reason = c.String()
		case "retryDelay":
			if d, err := time.ParseDuration(c.String()); err == nil && d > 0 {
				e.Retry = d
			}
		case "violations": // of a QuotaFailure
			for range c.Array() {
				for key := range c.Object() {
					if string(key) == "quotaId" && strings.Contains(c.String(), "PerDay") {
						reason = "QUOTA_EXHAUSTED"
					}
				}
			}
		}
	}
	return reason
}

// refine corrects the class by the reasons, which say more than the status.
func refine(e *perigee.Error, reasons []string) {
	for _, reason := range reasons {
		switch reason {
		case "API_KEY_INVALID", "API_KEY_EXPIRED":
			e.Class = perigee.ClassUnauthenticated
		case "QUOTA_EXHAUSTED", "INSUFFICIENT_G1_CREDITS_BALANCE":
			e.Class = perigee.ClassExhausted
		case "MODEL_CAPACITY_EXHAUSTED":
			e.Class = perigee.ClassCapacity
		}
	}
	// The official API says "the model is overloaded" in the message only.
	if e.Status == 503 && strings.Contains(strings.ToLower(e.Message), "overloaded") {
		e.Class = perigee.ClassCapacity
	}
}

package lsclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/redact"
)

// maxMessage is the maximum length of a message of the language server in an error.
const maxMessage = 600

// A meaning is the class and the hint for an error of the language server.
type meaning struct {
	text  string // a part of its message, in lower case
	class perigee.Class
	hint  string
}

const hintVersion = "update the installed Antigravity, or set version: of this upstream in the configuration to the version that is installed"

// meanings are the errors that the language server reports with code unknown and status 500, or
// only in a conversation. The first match counts.
var meanings = []meaning{
	{"credentials_missing", perigee.ClassUnauthenticated, "run `perigee login` for this upstream; after a start, the language server needs some seconds until it has the account"},
	{"access_token_scope_insufficient", perigee.ClassUnauthenticated, "run `perigee login` for this upstream: the sign-in lacks permissions"},
	{"neither planmodel nor requestedmodel", perigee.ClassInvalid, "name a model of this upstream; `perigee models` lists them"},
	{"plan model not specified", perigee.ClassInvalid, "name a model of this upstream; `perigee models` lists them"},
	{"model not found", perigee.ClassNotFound, "`perigee models` lists the models; after a start, the language server needs some seconds until it knows them"},
	{"run state not found", perigee.ClassNotFound, "the conversation is not open in this language server: start a new one"},
	{"trajectory not found", perigee.ClassNotFound, "start a new conversation"},
	{"input not registered for step", perigee.ClassInvalid, "answer the step that has the status WAITING, with the kind of answer that it asks for"},
	{"cannot specify both workspace uris and project environment config", perigee.ClassInvalid, "give a workspace or a project, not both"},
	{"project_id is required", perigee.ClassInvalid, "name a project"},
	{"untrusted workspace", perigee.ClassForbidden, "open the workspace in the IDE once and trust it"},
	{"subscription closed by repeat id", perigee.ClassUnavailable, "subscribe again with an id of its own"},
	{"reactive state is deprecated", perigee.ClassUnimplemented, "use StreamAgentStateUpdates"},
	{"reactive state is disabled", perigee.ClassUnimplemented, "use StreamAgentStateUpdates"},
	{"unsupported protocol scheme", perigee.ClassUnavailable, "restart the language server: it has lost the address of the cloud"},
	{"client sent an http request to an https server", perigee.ClassUnavailable, "the port is the one for HTTPS: use the other port of the language server"},
}

// codeClasses maps Connect codes to classes.
var codeClasses = map[string]perigee.Class{
	"canceled":            perigee.ClassCanceled,
	"unknown":             perigee.ClassUnavailable,
	"invalid_argument":    perigee.ClassInvalid,
	"deadline_exceeded":   perigee.ClassUnavailable,
	"not_found":           perigee.ClassNotFound,
	"already_exists":      perigee.ClassInvalid,
	"permission_denied":   perigee.ClassForbidden,
	"resource_exhausted":  perigee.ClassRateLimited,
	"failed_precondition": perigee.ClassInvalid,
	"aborted":             perigee.ClassUnavailable,
	"out_of_range":        perigee.ClassInvalid,
	"unimplemented":       perigee.ClassUnimplemented,
	"internal":            perigee.ClassUnavailable,
	"unavailable":         perigee.ClassUnavailable,
	"data_loss":           perigee.ClassUnavailable,
	"unauthenticated":     perigee.ClassUnauthenticated,
}

// A wireError is the JSON of an error, in the body of an answer or in the last frame of a stream.
type wireError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// class returns the class of an error with a text that is not in the tables. A method that the
// server lacks is a 404 without a code.
func (w wireError) class(status int) perigee.Class {
	if class, ok := codeClasses[w.Code]; ok {
		return class
	}
	switch {
	case status == http.StatusNotFound || status == http.StatusNotImplemented || status == http.StatusUnsupportedMediaType:
		return perigee.ClassUnimplemented
	case status == http.StatusBadRequest:
		return perigee.ClassInvalid
	}
	return perigee.ClassUnavailable
}

// responseError returns the error of an answer with a status other than 200.
func responseError(endpoint Endpoint, response *http.Response, body []byte) *perigee.Error {
	var wire wireError
	if json.Unmarshal(body, &wire) != nil || wire.Code == "" && wire.Message == "" {
		wire = wireError{Message: strings.TrimSpace(string(body))}
		if strings.Contains(response.Header.Get("Content-Type"), "html") {
			wire.Message = ""
		}
	}
	status := response.StatusCode
	refused := status == http.StatusUnauthorized || status == http.StatusForbidden
	if refused && (wire.Code == "" || strings.Contains(strings.ToLower(wire.Message), "csrf")) {
		err := perigee.Errorf(perigee.ClassUnavailable, "the language server on port %d does not accept the CSRF token: %w", endpoint.Port(), errToken)
		return err.WithHint("it may have been restarted: try again")
	}
	return wire.error(endpoint, status)
}

// error converts a wireError, including one that the language server passes on from the cloud.
func (w wireError) error(endpoint Endpoint, status int) *perigee.Error {
	text := redact.New(endpoint.CSRF).Text(w.Message)
	if err := classify(status, text); err != nil {
		return err
	}
	message := clean(text)
	if message == "" {
		message = strings.TrimSpace(w.Code + " " + http.StatusText(status))
	}
	return &perigee.Error{Class: w.class(status), Message: "the language server answered: " + message}
}

// classify returns the error for a text in the tables of this package and of providererr, or nil.
func classify(status int, text string) *perigee.Error {
	lower := strings.ToLower(text)
	for _, m := range meanings {
		if strings.Contains(lower, m.text) {
			return &perigee.Error{Class: m.class, Message: "the language server answered: " + clean(text), Hint: m.hint}
		}
	}
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		status = 0 // of the language server, not of the cloud
	}
	d, ok := providererr.FromText(status, text, nil, time.Now())
	switch {
	case !ok:
		return nil
	case d.Kind == providererr.KindVersion:
		return &perigee.Error{Class: d.Error.Class, Message: "the language server answered: " + clean(text), Hint: hintVersion}
	}
	// the configuration key of an upstream of kind langserver
	d.Error.Hint = strings.ReplaceAll(d.Error.Hint, "client_version", "version")
	d.Error.Status = 0
	return d.Error
}

// clean removes secrets and addresses from a text, and bounds its length.
func clean(text string) string {
	return perigee.Clip(redact.Emails(redact.Credentials(strings.TrimSpace(text))), maxMessage)
}

// asError converts an error to the one that callers get.
func asError(ctx context.Context, method string, err error) *perigee.Error {
	e, ok := errors.AsType[*perigee.Error](err)
	switch {
	case ok:
		return e
	case ctx.Err() != nil:
		return perigee.AsError(fmt.Errorf("%w: %w", ctx.Err(), err))
	case errors.Is(err, errNotSent):
		e := perigee.Errorf(perigee.ClassUnavailable, "the language server cannot be reached: %w", err)
		e.Hint, e.Public = "`perigee langserver status` shows its state", "the language server cannot be reached"
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return perigee.Errorf(perigee.ClassUnavailable, "the language server did not answer %s in time: %w", method, err)
	case errors.Is(err, ErrUnclear):
		return perigee.Errorf(perigee.ClassUnavailable, "the language server did not answer %s: %w", method, err)
	}
	return perigee.AsError(err)
}

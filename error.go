package perigee

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Class is the kind of an error. Each dialect has one table from classes to its own codes.
type Class string

// The classes. They are part of the contract: clients see them in x-perigee-class.
const (
	ClassInvalid         Class = "invalid"
	ClassUnauthenticated Class = "unauthenticated"
	ClassForbidden       Class = "forbidden"
	ClassNotFound        Class = "not_found"
	ClassExhausted       Class = "exhausted"
	ClassRateLimited     Class = "rate_limited"
	ClassCapacity        Class = "capacity"
	ClassIdentity        Class = "identity_refused"
	ClassVerification    Class = "verification_required"
	ClassCanceled        Class = "canceled"
	ClassUnavailable     Class = "unavailable"
	ClassUnimplemented   Class = "unimplemented"
	ClassInternal        Class = "internal"
)

// An Error says what kind of error it is, what happened, when it makes sense to try again, and what
// to do about it.
type Error struct {
	Class   Class
	Message string        // what happened, for a person
	Hint    string        // what to do about it; may be empty
	Retry   time.Duration // when trying again makes sense; 0: unknown
	RetryAt time.Time     // the same by the clock, where the edge has set it for dialects that name a time

	Upstream string            // where it happened, when it happened upstream
	Account  string            // with which account; for the record, not for clients
	Model    string            // the model that was asked there
	Status   int               // the HTTP status to answer with when it says more than the class
	Details  []json.RawMessage // the provider's own evidence (google.rpc details), untouched
	Usage    Usage             // what answers cost that were generated and discarded; for the record
	Cause    error

	// Public is what clients get in place of Message and Hint where these name details of this
	// machine: paths, addresses, accounts. Empty: clients get Message and Hint.
	Public string
}

// Errorf makes an error of a class. A %w verb keeps its cause.
func Errorf(class Class, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Class: class, Message: err.Error(), Cause: errors.Unwrap(err)}
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return strings.TrimRight(e.Message, ".") + "; " + e.Hint
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// WithHint returns e with the advice added.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// AsError returns the *Error in err. Other errors are converted: cancellation to ClassCanceled, a
// deadline to ClassUnavailable, everything else to ClassInternal. Nil stays nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &Error{Class: ClassCanceled, Message: "the call was canceled", Cause: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Class: ClassUnavailable, Message: "the call ran out of time", Cause: err}
	}
	return &Error{Class: ClassInternal, Message: "internal error: " + err.Error(), Cause: err}
}

// StatusClientGone is what proxies log when the client left before the answer. No client sees it.
const StatusClientGone = 499

// ClassStatus are the HTTP statuses of the classes.
var ClassStatus = map[Class]int{
	ClassInvalid:         http.StatusBadRequest,
	ClassUnauthenticated: http.StatusForbidden, // perigee's own credentials; the client's are ErrBadKey
	ClassForbidden:       http.StatusForbidden,
	ClassNotFound:        http.StatusNotFound,
	ClassExhausted:       http.StatusTooManyRequests,
	ClassRateLimited:     http.StatusTooManyRequests,
	ClassCapacity:        http.StatusServiceUnavailable,
	ClassIdentity:        http.StatusForbidden,
	ClassVerification:    http.StatusForbidden,
	ClassCanceled:        StatusClientGone,
	ClassUnavailable:     http.StatusServiceUnavailable,
	ClassUnimplemented:   http.StatusNotImplemented,
	ClassInternal:        http.StatusInternalServerError,
}

// dialectStatus are the statuses that a dialect has of its own.
var dialectStatus = map[Dialect]map[Class]int{
	DialectAnthropic: {ClassCapacity: 529},
}

// passThroughStatus are the statuses that say more than the class of the error does, and are passed
// on.
var passThroughStatus = map[int]bool{
	http.StatusMethodNotAllowed:            true,
	http.StatusRequestTimeout:              true,
	http.StatusRequestEntityTooLarge:       true,
	http.StatusUnsupportedMediaType:        true,
	http.StatusUpgradeRequired:             true,
	http.StatusRequestHeaderFieldsTooLarge: true,
	http.StatusInternalServerError:         true,
	http.StatusBadGateway:                  true,
	http.StatusGatewayTimeout:              true,
}

// ErrBadKey is the cause of errors about the key, the admin token or the session of a client: the
// only ones with status 401. Agents take a 401 for their own key's, and retry it for minutes.
var ErrBadKey = errors.New("the client's own key is missing or wrong")

// HTTPStatus returns the status with which a client of a dialect gets the error.
func (e *Error) HTTPStatus(d Dialect) int {
	if errors.Is(e, ErrBadKey) {
		return http.StatusUnauthorized
	}
	if errors.Is(e, ErrNoMemory) {
		return http.StatusServiceUnavailable // of perigee itself, in every dialect
	}
	if status, ok := dialectStatus[d][e.Class]; ok {
		return status
	}
	if passThroughStatus[e.Status] {
		return e.Status
	}
	if status, ok := ClassStatus[e.Class]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// MaxRetry is the longest time that a client is asked to wait; quotas come back within weeks.
const MaxRetry = 30 * 24 * time.Hour

// patience is the longest time that a client may wait by itself before it sends a request again.
const patience = time.Minute

// SetRetryHeaders sets the headers of an answer with the error that say whether and when to send
// the request again.
//
// Retry-After has whole seconds, at least one. Every 429 has it, also where the time is unknown.
// With x-should-retry: false, the official libraries of OpenAI and Anthropic return the error at
// once; otherwise they wait for as long as Retry-After says, without a word, even if that is a day.
// It is set if the quota is used up, and with any Retry-After of more than a minute.
func (e *Error) SetRetryHeaders(h http.Header, status int) {
	if status != http.StatusTooManyRequests && e.Retry <= 0 {
		return
	}
	wait := e.Retry
	if wait <= 0 && e.Class == ClassExhausted {
		wait = time.Minute
	}
	seconds := max(1, int64((min(wait, MaxRetry)+time.Second-1)/time.Second))
	h.Set("Retry-After", strconv.FormatInt(seconds, 10))
	if e.Class == ClassExhausted || wait > patience {
		h.Set("X-Should-Retry", "false")
	}
}

// clientStatus returns the status that the client of a call got; 0: none yet.
func (c *Call) clientStatus() int {
	status := c.Status
	if c.Outcome == OutcomeDone || status == 0 && c.FirstByte > 0 {
		status = http.StatusOK
	}
	begun := c.Stream && c.FirstByte > 0
	if c.Class == "" || begun || c.Outcome != OutcomeFailed {
		return status
	}
	if c.Upstream == "" && c.Status == http.StatusUnauthorized {
		return c.Status // the client's own key: a provider's 401 is about perigee's credentials, and has an upstream
	}
	if c.Upstream == "" && c.Class == ClassCapacity && c.Status == http.StatusServiceUnavailable {
		return c.Status // limits.memory of perigee itself, which has the same status in every dialect
	}
	return (&Error{Class: c.Class, Status: c.Status}).HTTPStatus(c.Dialect)
}

// A Fault says which part of a request is to blame, in the words of the API that the client speaks.
// It is the cause of an Error: dialects have places for it in theirs, and some clients act on it
// without asking the user.
type Fault struct {
	Param string // the field, with its path; empty: it is about none
	Code  string // the API's own name for the problem; empty: it has none
}

func (f *Fault) Error() string {
	if f.Param == "" || f.Code == "" {
		return f.Param + f.Code
	}
	return f.Param + ": " + f.Code
}

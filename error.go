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

// An Error is an error with its class, a message, the time until a retry, and a hint.
type Error struct {
	Class   Class
	Message string        // what happened, as text for people
	Hint    string        // what the user can do about it; may be empty
	Retry   time.Duration // how long to wait before a retry; 0 if unknown
	RetryAt time.Time     // Retry as a point in time; set by the server for dialects that send one

	Upstream string            // the upstream that failed; empty if the error is perigee's own
	Account  string            // the account that was used; recorded, and not sent to clients
	Model    string            // the model that was asked there
	Status   int               // the HTTP status, if it is more specific than the class
	Details  []json.RawMessage // the provider's own evidence (google.rpc details), untouched
	Usage    Usage             // the tokens of answers that were generated and discarded; recorded
	Cause    error

	// Raw is the error as the provider sent it, for clients of its dialect. It is nil if they get
	// an error of perigee, too.
	Raw *RawError

	// Public is sent to clients in place of Message and Hint if these contain details of this
	// machine: paths, addresses, accounts. If it is empty, clients get Message and Hint. PublicHint is
	// the hint beside it; if that is empty, clients are referred to perigee's log.
	Public, PublicHint string

	// Fix is the command that removes the cause, and Setting the setting of the upstream that has to be
	// corrected, for perigee doctor. Both are empty if neither is known.
	Fix, Setting string
}

// A RawError is the error of a provider, which clients of its dialect get unchanged.
type RawError struct {
	Dialect Dialect
	Status  int         // of the answer; 0 if the error is a frame of a stream
	Header  http.Header // that clients get
	Body    []byte      // of the answer, or the frame
}

// RawAnswer returns the provider's answer if it is the error that clients of a dialect get, and nil
// otherwise.
func (e *Error) RawAnswer(d Dialect) *RawError {
	if e.Raw == nil || e.Raw.Dialect != d || e.Raw.Status == 0 {
		return nil
	}
	return e.Raw
}

// RawFrame returns the frame of the provider's stream that reports the error, if clients of a
// dialect get it after the frames before it, and nil otherwise.
func (e *Error) RawFrame(d Dialect) []byte {
	if e.Raw == nil || e.Raw.Dialect != d || e.Raw.Status != 0 {
		return nil
	}
	return e.Raw.Body
}

// Errorf returns an error of a class. The operand of a %w verb becomes its Cause.
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

// WithHint returns a copy of e with the hint.
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

// StatusClientGone is the status that proxies log when the client disconnects before the answer. It
// is never sent.
const StatusClientGone = 499

// ClassStatus are the HTTP statuses of the classes.
var ClassStatus = map[Class]int{
	ClassInvalid:         http.StatusBadRequest,
	ClassUnauthenticated: http.StatusForbidden, // perigee's credentials; see ErrBadKey
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

// dialectStatus are the statuses in which a dialect differs from ClassStatus.
var dialectStatus = map[Dialect]map[Class]int{
	DialectAnthropic: {ClassCapacity: 529},
}

// passThroughStatus are the statuses that are more specific than the class of the error, and are
// passed on.
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

// ErrBadKey is the cause of errors about the key, the admin token or the session of a client. Only
// these have status 401: agents attribute a 401 to their own key, and retry it for minutes.
var ErrBadKey = errors.New("the client's own key is missing or wrong")

// HTTPStatus returns the HTTP status of the error for clients of a dialect.
func (e *Error) HTTPStatus(d Dialect) int {
	if errors.Is(e, ErrBadKey) {
		return http.StatusUnauthorized
	}
	if errors.Is(e, ErrNoMemory) {
		return http.StatusServiceUnavailable // of perigee itself, in every dialect
	}
	if raw := e.RawAnswer(d); raw != nil {
		return raw.Status
	}
	if e.asksToSlowDown() {
		return http.StatusTooManyRequests
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

// SlowDown is the Code of a Fault with which a provider that is overloaded asks a client to send
// fewer requests.
const SlowDown = "slow_down"

// asksToSlowDown reports whether the provider refused a request with a status 429 that is about its
// own load. Clients get the same status, so that they wait.
func (e *Error) asksToSlowDown() bool {
	fault, ok := errors.AsType[*Fault](e.Cause)
	return ok && fault.Code == SlowDown && e.Status == http.StatusTooManyRequests
}

// MaxRetry is the longest time that a client is asked to wait; quotas reset within weeks.
const MaxRetry = 30 * 24 * time.Hour

// patience is the longest time that a client may wait by itself before it sends a request again.
const patience = time.Minute

// SetRetryHeaders sets the headers that control whether and when clients send the request again.
//
// Retry-After has whole seconds, at least one. Every 429 has it, and every error about a quota that is
// used up, such as a 402 of the provider that is passed on, also where the time is unknown.
// With x-should-retry: false, the official libraries of OpenAI and Anthropic return the error at
// once; otherwise they wait silently for the whole Retry-After, even if that is a day. The header
// is set if the quota is used up, and with any Retry-After of more than a minute.
func (e *Error) SetRetryHeaders(h http.Header, status int) {
	if status != http.StatusTooManyRequests && e.Class != ClassExhausted && e.Retry <= 0 {
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

// StatusOfOutcome returns the status that the client of a call got according to its outcome, class
// and provider's status, or 0 if there is none yet.
func (c *Call) StatusOfOutcome() int {
	status := c.Status
	if c.Outcome == OutcomeDone || status == 0 && c.FirstByte > 0 {
		status = http.StatusOK
	}
	begun := c.Stream && c.FirstByte > 0
	if c.Class == "" || begun || c.Outcome != OutcomeFailed {
		return status
	}
	if c.Upstream == "" && c.Status == http.StatusUnauthorized {
		// The client's own key: a provider's 401 is about perigee's credentials, and has an
		// upstream.
		return c.Status
	}
	if c.Upstream == "" && c.Class == ClassCapacity && c.Status == http.StatusServiceUnavailable {
		// limits.memory of perigee itself has the same status in every dialect.
		return c.Status
	}
	return (&Error{Class: c.Class, Status: c.Status}).HTTPStatus(c.Dialect)
}

// A Fault is the part of a request that an Error is about, as the client's API names it. It is the
// cause of that Error. Dialects have fields for it in their errors, and some clients act on it
// without asking the user.
type Fault struct {
	Param string // the path of the field; empty if the error is not about a field
	Code  string // the API's code for the problem; empty if it has none
}

func (f *Fault) Error() string {
	if f.Param == "" || f.Code == "" {
		return f.Param + f.Code
	}
	return f.Param + ": " + f.Code
}

package perigee

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// An Error says what kind of error it is, what happened, when it makes sense to try again, and what to do about it.
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

	// Public is what clients get in place of Message and Hint where these name details of this machine: paths, addresses,
	// accounts. Empty: clients get Message and Hint.
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

// AsError returns the *Error in err. Other errors are converted: cancellation to ClassCanceled, a deadline to ClassUnavailable,
// everything else to ClassInternal. Nil stays nil.
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

package perigee

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Class says what kind of trouble an error is. Each edge has one table from classes to its own codes.
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

// An Error is trouble that somebody can do something about: what kind it is, what happened, when it ends
// and what to do next.
type Error struct {
	Class   Class
	Message string        // what happened, for a person
	Next    string        // what to do about it; may be empty
	Retry   time.Duration // when trying again makes sense; 0: unknown
	RetryAt time.Time     // the same by the clock, where the edge has set it for dialects that name a time

	Upstream string            // where it happened, when it happened upstream
	Account  string            // with which account; for the record, not for clients
	Model    string            // the model that was asked there
	Status   int               // the HTTP status to answer with when it says more than the class
	Details  []json.RawMessage // the provider's own evidence (google.rpc details), untouched
	Usage    Usage             // what answers cost that were generated and discarded; for the record
	Cause    error

	// Ours says that Message and Next are about perigee's own house, which its owner should know about, and clients should not;
	// it is what they are told instead. Empty: there is nothing to hide.
	Ours string
}

// Errorf makes an error of a class. A %w verb keeps its cause.
func Errorf(class Class, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Class: class, Message: err.Error(), Cause: errors.Unwrap(err)}
}

func (e *Error) Error() string {
	if e.Next == "" {
		return e.Message
	}
	return strings.TrimRight(e.Message, ".") + "; " + e.Next
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// WithNext returns e with the advice added.
func (e *Error) WithNext(format string, args ...any) *Error {
	c := *e
	c.Next = fmt.Sprintf(format, args...)
	return &c
}

// AsError finds the *Error in err. What is none becomes one: cancellation is canceled, a deadline is
// unavailable, and everything else internal, because nobody has thought about it yet. Nil stays nil.
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

package perigee

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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

	Upstream string            // where it happened, when it happened upstream
	Account  string            // with which account; for the record, not for clients
	Model    string            // the model that was asked there
	Status   int               // the HTTP status to answer with when it says more than the class
	Details  []json.RawMessage // the provider's own evidence (google.rpc details), untouched
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

// What a Note can say was done.
const (
	NoteDropped  = "dropped"  // it did not reach the model
	NoteMapped   = "mapped"   // it reached the model as something else
	NoteRenamed  = "renamed"  // it goes by another name on the way, and by its own again on the way back
	NoteRepaired = "repaired" // it was wrong, and was set right
)

// A Note says what was changed or dropped on the way, in the fewest words: "dropped logprobs",
// "renamed tool 1mcp.read". Notes reach the client in x-perigee-notes, and under strict: true a note is an error.
type Note struct {
	Action  string
	Subject string // what it was done to, in the client's words
}

func (n Note) String() string { return n.Action + " " + n.Subject }

// LateNotes are notes that come up only while an answer is written, when who records the call cannot see them pass. All
// methods may be called concurrently.
type LateNotes struct {
	mu   sync.Mutex
	list []Note
}

// Add takes a note.
func (l *LateNotes) Add(n Note) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, n)
}

// All returns what was noted so far. Nil has nothing.
func (l *LateNotes) All() []Note {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// A Handling says what becomes of a field of a client's request.
type Handling string

// The ways to handle a field.
const (
	HandlingCarried  Handling = "carried"  // the model sees it as the client meant it
	HandlingMapped   Handling = "mapped"   // the model sees the nearest thing; there is a note
	HandlingDropped  Handling = "dropped"  // nobody sees it; there is a note
	HandlingAccepted Handling = "accepted" // it asks for nothing that could be missed: no note
	HandlingRefused  Handling = "refused"  // the request is an error
)

// A FieldRule documents one field of a dialect's requests. Dialects keep theirs as a table, from which
// docs/compatibility.md is made, and a test sends each Example to see that the table tells the truth.
type FieldRule struct {
	Field    string // as the client writes it: "tools[].strict"
	Handling Handling
	Becomes  string // where it goes, or why it does not
	Example  string // a whole request body that uses the field
}

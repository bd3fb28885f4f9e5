package perigee

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

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

// passThroughStatus are the statuses that say more than the class of the error does, and are passed on.
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

// ErrBadKey is the cause of errors about the key, the admin token or the session of a client: the only ones with status 401.
// Agents take a 401 for their own key's, and retry it for minutes.
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

// SetRetryHeaders sets the headers of an answer with the error that say whether and when to send the request again.
//
// Retry-After has whole seconds, at least one. Every 429 has it, also where the time is unknown. With x-should-retry: false, the
// official libraries of OpenAI and Anthropic return the error at once; otherwise they wait for as long as Retry-After says,
// without a word, even if that is a day. It is set if the quota is used up, and with any Retry-After of more than a minute.
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

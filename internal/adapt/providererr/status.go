package providererr

import (
	"net/http"

	"perigee"
)

// StatusOverloaded is the status with which Anthropic and compatible servers refuse calls while they
// are overloaded.
const StatusOverloaded = 529

// StatusClass returns the class of a provider's error for which only the HTTP status is known. Status
// 0 is an error inside an answer.
func StatusClass(status int) perigee.Class {
	switch status {
	case http.StatusUnauthorized:
		return perigee.ClassUnauthenticated
	case http.StatusPaymentRequired:
		return perigee.ClassExhausted
	case http.StatusForbidden:
		return perigee.ClassForbidden
	case http.StatusNotFound:
		return perigee.ClassNotFound
	case http.StatusTooManyRequests:
		return perigee.ClassRateLimited
	case http.StatusServiceUnavailable, StatusOverloaded:
		return perigee.ClassCapacity
	}
	if status == 0 || status == http.StatusRequestTimeout || status >= http.StatusInternalServerError {
		return perigee.ClassUnavailable
	}
	return perigee.ClassInvalid
}

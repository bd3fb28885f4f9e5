package mcpserver

import (
	"encoding/json"
	"net/http"

	"perigee"
)

// codeRefused is the JSON-RPC code of errors that do not concern a message.
const codeRefused = -32001

// WriteError answers a request with an error that does not concern a message: a JSON-RPC error
// without an ID, and the HTTP status and the x-perigee-class header of its class.
func WriteError(w http.ResponseWriter, err *perigee.Error) {
	status := err.HTTPStatus(perigee.DialectMCP)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	err.SetRetryHeaders(w.Header(), status)
	message := err.Error()
	if err.Public != "" {
		message = err.Public
	}
	writeRefusal(w, status, refusal{codeRefused, message, err.Class})
}

// A refusal is a JSON-RPC error without an id.
type refusal struct {
	code    int
	message string
	class   perigee.Class
}

func writeRefusal(w http.ResponseWriter, status int, r refusal) {
	type detail struct {
		Class perigee.Class `json:"class"`
	}
	type wireError struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    detail `json:"data"`
	}
	data, _ := json.Marshal(struct {
		Version string    `json:"jsonrpc"`
		ID      any       `json:"id"`
		Error   wireError `json:"error"`
	}{"2.0", nil, wireError{r.code, r.message, detail{r.class}}})
	w.Header().Del("Content-Length")
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("x-perigee-class", string(r.class))
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}

// statusClass returns the class of an error of the SDK, for which only the HTTP status is known.
func statusClass(status int) perigee.Class {
	switch status {
	case http.StatusUnauthorized:
		return perigee.ClassUnauthenticated
	case http.StatusForbidden:
		return perigee.ClassForbidden
	case http.StatusNotFound:
		return perigee.ClassNotFound
	case http.StatusServiceUnavailable:
		return perigee.ClassUnavailable
	}
	if status >= http.StatusInternalServerError {
		return perigee.ClassInternal
	}
	return perigee.ClassInvalid
}

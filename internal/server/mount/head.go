package mount

import (
	"net/http"

	"perigee"
)

// CheckHead refuses a request with a head larger than limits.head. net/http stops reading a head
// some 64 KiB beyond that (http.Server.MaxHeaderBytes) and answers 431 itself, so that a connection
// cannot hold more than that before its key is checked.
func CheckHead(r *http.Request, limit int) error {
	size := len(r.RequestURI)
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(v)
		}
	}
	if size <= limit {
		return nil
	}
	e := perigee.Errorf(perigee.ClassInvalid, "the head of the request has %d bytes", size).
		WithHint("send at most %d, or raise limits.head", limit)
	e.Status = http.StatusRequestHeaderFieldsTooLarge
	return e
}

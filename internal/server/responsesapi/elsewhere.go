package responsesapi

import (
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"perigee"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/server/mount"
)

// maxRecord is more than the size of the record of a response that an upstream stores.
const maxRecord = 4 << 10

// upstream returns the upstream that stores the response, or "" if no upstream does.
func (q *request) upstream() (string, error) {
	if q.Store == nil {
		return "", nil
	}
	size, err := q.Store.ResponseSize(q.r.Context(), q.call.Key, q.id)
	if err != nil || size > maxRecord {
		return "", notMissing(err)
	}
	r, err := q.Store.Response(q.r.Context(), q.call.Key, q.id)
	if err != nil {
		return "", notMissing(err)
	}
	return responses.StoredAt(r.Response), nil
}

// notMissing returns an error, unless it is about a response that does not exist.
func notMissing(err error) error {
	if e := perigee.AsError(err); e != nil && e.Class == perigee.ClassNotFound {
		return nil
	}
	return err
}

// callUpstream has the upstream that stores the response answer the request.
func (q *request) callUpstream(upstream string) error {
	method := q.r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	path := url.PathEscape(q.id)
	switch method + q.subpath {
	case http.MethodGet, http.MethodDelete:
	case http.MethodGet + "input_items", http.MethodPost + "cancel":
		path += "/" + q.subpath
	default:
		return q.noSuchPath()
	}
	query := q.r.URL.Query()
	query.Del("key") // the client's key for perigee
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	err := q.Upstream.CallResponse(q.r.Context(), &perigee.ResponseCall{
		Upstream: upstream, Method: method, Header: q.r.Header, Path: path,
	}, func(a perigee.RawAnswer) error { return q.pass(upstream, &a) })
	if err == nil && method == http.MethodDelete {
		return notMissing(q.Store.DeleteResponse(q.r.Context(), q.call.Key, q.id))
	}
	return err
}

// pass passes the answer of an upstream on, byte for byte. One that breaks off ends the connection,
// or the stream with an error.
func (q *request) pass(upstream string, a *perigee.RawAnswer) error {
	h, streams := q.w.Header(), strings.HasPrefix(a.ContentType, "text/event-stream")
	maps.Copy(h, a.Header)
	mount.Describe(q.w, upstream, "")
	if streams {
		mount.StreamHeader(h, a.ContentType)
	} else {
		h.Set("Content-Type", a.ContentType)
	}
	q.w.WriteHeader(a.Status)
	q.headSent = true
	piece := make([]byte, 32<<10)
	for {
		n, err := a.Body.Read(piece)
		if n > 0 {
			q.send(piece[:n])
		}
		switch {
		case err == io.EOF:
			return nil
		case q.r.Context().Err() != nil:
			return nil // the client is gone
		case err != nil && streams:
			q.send(responses.ReplayError(q.call.Explain(err)))
			return nil
		case err != nil:
			panic(http.ErrAbortHandler)
		}
	}
}

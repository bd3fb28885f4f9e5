package connectframe

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// EitherForm makes the unary methods of next callable as streams as well: a POST request of type
// application/connect+proto or application/connect+json has one message, with or without an
// envelope, and is answered with a frame for the message and an end frame. An error is an end
// frame with its details and metadata, and status 200. streams reports whether a path is a
// streaming method; requests for such paths, and requests in unary form, are passed on unchanged.
//
// A message that is larger than limit, before or after it is decompressed, is refused with
// resource_exhausted. An answer that is neither a message nor a Connect error, such as 404 for an
// unknown path, is not changed.
func EitherForm(next http.Handler, streams func(path string) bool, limit int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		codec := streamCodec(r)
		if codec == "" || streams(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		body := newBody(r, limit, true)
		message, err := readMessage(body, body.messageEncoding, body.limit)
		if err != nil {
			w.Header().Set("Content-Type", streamType+codec)
			_, _ = w.Write(EndFrame(err))
			return
		}
		a := answer{header: w.Header()}
		next.ServeHTTP(&a, unaryRequest(r, codec, message))
		a.stream(w, codec)
	})
}

// unaryRequest returns the same call in unary form. Its answer is not compressed.
func unaryRequest(r *http.Request, codec string, message []byte) *http.Request {
	if codec == "json" && len(message) == 0 {
		message = []byte("{}") // an empty message in an envelope is valid, but not in unary form
	}
	r = r.WithContext(r.Context()) // a shallow copy
	r.Header = r.Header.Clone()
	for _, name := range []string{
		"Accept-Encoding", "Connect-Accept-Encoding", "Connect-Content-Encoding", "Content-Encoding", "Content-Length",
	} {
		r.Header.Del(name)
	}
	r.Header.Set("Content-Type", "application/"+codec)
	r.Body = io.NopCloser(bytes.NewReader(message))
	r.ContentLength = int64(len(message))
	return r
}

// An answer holds the response of a unary method.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// stream writes the answer as frames. The trailers of the method are headers in unary form, and
// metadata of the end frame here.
func (a *answer) stream(w http.ResponseWriter, codec string) {
	a.WriteHeader(http.StatusOK)
	var end struct {
		Error    json.RawMessage `json:"error,omitempty"`
		Metadata http.Header     `json:"metadata,omitempty"`
	}
	var frames []byte
	if a.status == http.StatusOK {
		frames = Frame(nil, 0, a.body.Bytes())
	} else if end.Error = a.connectError(); end.Error == nil {
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body.Bytes())
		return
	}
	header := w.Header()
	for name, values := range header {
		if trailer, ok := strings.CutPrefix(name, "Trailer-"); ok {
			if end.Metadata == nil {
				end.Metadata = http.Header{}
			}
			end.Metadata[trailer] = values
			delete(header, name)
		}
	}
	if accepted := header["Accept-Encoding"]; accepted != nil {
		header["Connect-Accept-Encoding"] = accepted
		delete(header, "Accept-Encoding")
	}
	header.Del("Content-Length")
	header.Set("Content-Type", streamType+codec)
	last, _ := json.Marshal(end) // strings, and JSON that is valid
	_, _ = w.Write(Frame(frames, flagEnd, last))
}

// connectError returns the body if it is an error of the Connect protocol, which has a code.
func (a *answer) connectError() json.RawMessage {
	var wire struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(a.body.Bytes(), &wire) != nil || wire.Code == "" {
		return nil
	}
	return a.body.Bytes()
}

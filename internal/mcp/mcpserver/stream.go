package mcpserver

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A streamWriter is between the SDK and a client. It sends comments on an idle event stream, so
// that neither the client nor a proxy considers the connection dead, and converts the SDK's
// plain-text errors to the form of all errors.
type streamWriter struct {
	w     http.ResponseWriter
	pause time.Duration // between comments

	mu      sync.Mutex
	ready   bool // the SDK has set all headers
	started bool // the header was sent
	stream  bool // an event stream
	// status of a plain-text error with a text that is being collected; 0 if there is none
	refused int
	text    []byte // of that error
	late    bool   // an error came after the stream had started
	done    bool
	timer   *time.Timer
}

// Header implements http.ResponseWriter.
func (s *streamWriter) Header() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil {
		s.timer = time.AfterFunc(s.pause, s.sendKeepAlive)
	}
	return s.w.Header()
}

// Unwrap is used by http.ResponseController. Flush is not reached through it, because it must not
// be concurrent with sendKeepAlive.
func (s *streamWriter) Unwrap() http.ResponseWriter { return s.w }

// FlushError is used by http.ResponseController.
func (s *streamWriter) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused != 0 {
		return nil
	}
	return http.NewResponseController(s.w).Flush()
}

// WriteHeader implements http.ResponseWriter.
func (s *streamWriter) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(status)
}

func (s *streamWriter) begin(status int) {
	contentType := s.w.Header().Get("Content-Type")
	switch {
	case s.started:
		s.late = status >= http.StatusBadRequest
		return
	case status >= http.StatusBadRequest && strings.HasPrefix(contentType, "text/plain"):
		s.refused = status
		return
	case status >= http.StatusBadRequest:
		s.w.Header().Set("x-perigee-class", string(statusClass(status)))
	}
	s.started = true
	s.stream = strings.HasPrefix(contentType, "text/event-stream")
	s.w.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (s *streamWriter) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused != 0 {
		s.text = append(s.text, data...)
		return len(data), nil
	}
	if !s.started {
		s.begin(http.StatusOK)
	}
	if s.timer != nil {
		s.timer.Reset(s.pause)
	}
	if s.late && s.stream {
		data = append(append([]byte("event: message\ndata: "), data...), "\n\n"...)
	}
	return s.w.Write(data)
}

// setReady records that the SDK has called a tool for this request. Until then it may still set
// headers, and may refuse the request.
func (s *streamWriter) setReady() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
}

// sendKeepAlive sends a comment.
func (s *streamWriter) sendKeepAlive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done || s.refused != 0 {
		return
	}
	if !s.started && s.ready {
		s.begin(http.StatusOK)
	}
	if s.stream {
		if _, err := s.w.Write([]byte(": keep-alive\n\n")); err == nil {
			_ = http.NewResponseController(s.w).Flush()
		}
	}
	s.timer.Reset(s.pause)
}

// close must be called before the handler returns.
func (s *streamWriter) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.refused == 0 {
		return
	}
	r := refusal{codeRefused, strings.TrimSpace(string(s.text)), statusClass(s.refused)}
	if s.refused == http.StatusBadRequest {
		r.code = jsonrpc.CodeInvalidRequest
		if strings.HasPrefix(r.message, "malformed payload") {
			r.code = jsonrpc.CodeParseError
		}
	}
	writeRefusal(s.w, s.refused, r)
}

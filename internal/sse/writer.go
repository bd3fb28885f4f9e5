package sse

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
)

// A Writer writes events, each with one Write. When the destination can flush, as an http.ResponseWriter can, it is
// flushed after each, so that no event waits for the next. A Writer is for one goroutine.
type Writer struct {
	CRLF bool // end lines with CRLF, as Google's streams do

	dst   io.Writer
	flush func() error
	buf   []byte
}

// NewWriter returns a Writer to dst.
func NewWriter(dst io.Writer) *Writer {
	return &Writer{dst: dst, flush: flusher(dst)}
}

// Event writes one event. Line ends in data (LF, CRLF or CR) start a new data line, which readers join with LF. Without
// a name there is no event line.
func (w *Writer) Event(name string, data []byte) error {
	if strings.ContainsAny(name, "\r\n") {
		return errors.New("sse: line end in an event name")
	}
	w.buf = AppendEvent(w.buf[:0], name, data, w.CRLF)
	return w.send()
}

// Comment writes a comment, which readers skip, and the blank line that makes them look at it.
func (w *Writer) Comment(text string) error {
	w.buf = AppendComment(w.buf[:0], text, w.CRLF)
	return w.send()
}

func (w *Writer) send() error {
	_, err := w.dst.Write(w.buf)
	if cap(w.buf) > idleBuffer {
		w.buf = nil
	}
	if err != nil || w.flush == nil {
		return err
	}
	return w.flush()
}

// AppendEvent appends what Event writes. The name must not have line ends in it.
func AppendEvent(dst []byte, name string, data []byte, crlf bool) []byte {
	end := ending(crlf)
	if name != "" {
		dst = append(dst, "event: "...)
		dst = append(dst, name...)
		dst = append(dst, end...)
	}
	dst = appendLines(dst, "data: ", data, end)
	return append(dst, end...)
}

// AppendComment appends what Comment writes.
func AppendComment(dst []byte, text string, crlf bool) []byte {
	end := ending(crlf)
	dst = appendLines(dst, ": ", []byte(text), end)
	return append(dst, end...)
}

func ending(crlf bool) string {
	if crlf {
		return "\r\n"
	}
	return "\n"
}

func appendLines(dst []byte, prefix string, text []byte, end string) []byte {
	for {
		dst = append(dst, prefix...)
		i := bytes.IndexByte(text, '\n')
		if cr := bytes.IndexByte(text[:max(i, 0)], '\r'); i >= 0 && cr >= 0 {
			i = cr
		} else if i < 0 {
			i = bytes.IndexByte(text, '\r')
		}
		if i < 0 {
			dst = append(dst, text...)
			return append(dst, end...)
		}
		dst = append(dst, text[:i]...)
		dst = append(dst, end...)
		if text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			i++
		}
		text = text[i+1:]
	}
}

// flusher finds out how dst is flushed, looking through wrappers the way http.ResponseController does.
func flusher(dst any) func() error {
	for {
		switch d := dst.(type) {
		case interface{ FlushError() error }:
			return d.FlushError
		case interface{ Flush() error }:
			return d.Flush
		case interface{ Flush() }:
			return func() error { d.Flush(); return nil }
		case interface{ Unwrap() http.ResponseWriter }:
			dst = d.Unwrap()
		default:
			return nil
		}
	}
}

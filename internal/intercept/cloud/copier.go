package cloud

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"perigee/internal/lib/rawjson"
)

// A copier writes the language server's copy of an answer. Tool calls in it belong to the client:
// in the copy a text replaces them, so that the language server runs no tool and its turn ends.
// All other bytes are unchanged, except that a lone CR as a line end becomes LF: then a reader
// that ends lines only with LF finds the same events as one that follows the definition of event
// streams.
type copier struct {
	kind     copyKind
	out      io.Writer
	pending  []byte // an incomplete event, or an answer in one piece
	line     int    // start of its last line
	searched int    // position up to which it has been searched for line ends
	cr       bool   // the last byte of an event stream so far was a CR, which is not in pending yet
	closed   bool   // a text has replaced a call
}

// A copyKind is the way in which an answer is divided into texts that can be changed.
type copyKind int

const (
	copyBytes  copyKind = iota // not divided: errors, and answers that are not JSON
	copyEvents                 // a stream of events, each with JSON in it
	copyWhole                  // JSON in one piece
)

// maxPending is the maximum size of an event, or of an answer in one piece, that the language
// server gets.
const maxPending = 16 << 20

var errEventSize = errors.New("an event of the answer is larger than 16 MiB")

// closing is the part that replaces a call for the language server.
const closing = `{"text":"(The answer continues with the client.)"}`

func newCopier(response *http.Response, out io.Writer) *copier {
	c := &copier{out: out}
	if response.StatusCode == http.StatusOK {
		switch kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind {
		case "text/event-stream":
			c.kind = copyEvents
		case "application/json":
			c.kind = copyWhole
		}
	}
	return c
}

// write takes the next bytes of the answer, and writes complete events; at the end it writes all
// bytes.
func (c *copier) write(p []byte, end bool) error {
	if c.kind == copyBytes {
		return c.send(p)
	}
	if c.kind == copyWhole {
		c.pending = append(c.pending, p...)
	} else {
		c.addLines(p, end)
		if err := c.events(); err != nil {
			return err
		}
	}
	switch {
	case len(c.pending) > maxPending:
		return errEventSize
	case !end || len(c.pending) == 0:
		return nil
	case c.kind == copyEvents: // without its blank line
		return c.event(c.pending)
	}
	text, _ := c.withoutCalls(c.pending)
	return c.send(text)
}

func (c *copier) send(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := c.out.Write(p)
	return err
}

// addLines appends bytes of an event stream to pending, with LF in place of each CR that is a line
// end of its own.
func (c *copier) addLines(p []byte, end bool) {
	for len(p) > 0 {
		if c.cr {
			if c.cr = false; p[0] == '\n' {
				c.pending = append(c.pending, '\r')
			} else {
				c.pending = append(c.pending, '\n')
			}
		}
		line, rest, found := bytes.Cut(p, []byte("\r"))
		c.pending = append(c.pending, line...)
		p, c.cr = rest, found
	}
	if end && c.cr {
		c.pending, c.cr = append(c.pending, '\n'), false
	}
}

// events writes the complete events. An event ends with a blank line; lines end with LF or CRLF.
func (c *copier) events() error {
	begin := 0
	for {
		at := bytes.IndexByte(c.pending[c.searched:], '\n')
		if at < 0 {
			c.searched = len(c.pending)
			break
		}
		line := bytes.TrimSuffix(c.pending[c.line:c.searched+at], []byte("\r"))
		c.searched += at + 1
		c.line = c.searched
		if len(line) > 0 {
			continue
		}
		if err := c.event(c.pending[begin:c.searched]); err != nil {
			return err
		}
		begin = c.searched
	}
	if begin > 0 {
		rest := c.pending[begin:]
		if cap(c.pending) > 1<<20 {
			c.pending = nil // do not keep a buffer over 1 MiB
		}
		c.pending = append(c.pending[:0], rest...)
		c.line, c.searched = c.line-begin, c.searched-begin
	}
	return nil
}

// event writes one event.
func (c *copier) event(event []byte) error {
	var data []byte
	for line := range bytes.Lines(event) {
		if value, ok := dataOf(line); ok {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		}
	}
	text, changed := c.withoutCalls(data)
	if !changed {
		return c.send(event)
	}
	out := make([]byte, 0, len(event)+len(closing))
	written := false
	for line := range bytes.Lines(event) {
		if _, ok := dataOf(line); !ok {
			out = append(out, line...)
			continue
		}
		if written {
			continue
		}
		written = true
		end := line[len(bytes.TrimRight(line, "\r\n")):]
		for part := range bytes.SplitSeq(text, []byte("\n")) {
			out = append(append(append(out, "data: "...), part...), end...)
		}
	}
	return c.send(out)
}

// dataOf returns the value of a data line of an event.
func dataOf(line []byte) (value []byte, ok bool) {
	line = bytes.TrimPrefix(line, []byte("\ufeff")) // at the start of a stream
	value, ok = bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:"))
	return bytes.TrimPrefix(value, []byte(" ")), ok
}

// withoutCalls replaces the parts of an answer that are tool calls.
func (c *copier) withoutCalls(text []byte) (replaced []byte, changed bool) {
	if rawjson.Check(text) != nil {
		if !bytes.Contains(bytes.ToLower(text), []byte("function")) && !bytes.Contains(text, []byte(`\u00`)) {
			return text, false // a lax reader could not take it for a call either
		}
		return []byte(`{"response":{"candidates":[{"content":{"role":"model","parts":[` + c.closing() + `]}}]}}`), true
	}
	edits := c.calls(rawjson.NewCursor(text), nil)
	if len(edits) == 0 {
		return text, false
	}
	return rawjson.Splice(text, edits...), true
}

// closing returns the part that replaces a call. The language server gets its text once in an
// answer.
func (c *copier) closing() string {
	if c.closed {
		return `{"text":""}`
	}
	c.closed = true
	return closing
}

// calls appends the edits for the value about to be read: objects that have a call are replaced,
// at any depth.
func (c *copier) calls(at *rawjson.Cursor, edits []rawjson.Edit) []rawjson.Edit {
	switch at.Kind() {
	case rawjson.Array:
		for range at.Array() {
			edits = c.calls(at, edits)
		}
	case rawjson.Object:
		start, inner, call := at.Offset(), edits, false
		for key := range at.Object() {
			if isCall(key) && at.Kind() != rawjson.Null {
				call = true
			}
			if !call {
				inner = c.calls(at, inner)
			}
		}
		if !call {
			return inner
		}
		edits = append(edits, rawjson.Edit{Start: start, End: at.Offset(), New: []byte(c.closing())})
	default:
		at.Skip()
	}
	return edits
}

// isCall reports whether a member of a part is a call, by any name that a reader of protocol
// buffers or a lax reader of JSON accepts.
func isCall(key []byte) bool {
	return len(key) >= len("functionCall") && strings.EqualFold(strings.ReplaceAll(string(key), "_", ""), "functionCall")
}

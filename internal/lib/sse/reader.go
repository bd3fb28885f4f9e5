// Package sse reads and writes text/event-stream, the way model providers use it.
//
// The reader follows the WHATWG definition, except that an event that the stream's end cuts off
// before its blank line is delivered, because providers forget the last newline, and that ids are
// ignored. The package does not handle HTTP, reconnecting or the JSON inside events. The upstreams
// read with it; the dialects write. A Reader with Lines reads application/x-ndjson in the same way.
package sse

import (
	"bytes"
	"errors"
	"io"
)

// MaxLine is the longest line, and the most data in one event, that a Reader accepts.
const MaxLine = 64 << 20

// ErrTooLong is returned for a line or an event beyond MaxLine.
var ErrTooLong = errors.New("sse: line or event longer than 64 MiB")

// An Event is one event of a stream.
type Event struct {
	Name string // the event field, "" if there was none
	Data []byte // the data lines, joined by \n; valid until the next call of Next
}

const (
	firstBuffer = 1 << 10  // ten thousand streams may be open and silent
	busyBuffer  = 4 << 10  // for a stream that sends faster than it is read
	idleBuffer  = 64 << 10 // the largest buffer that a stream keeps after a longer event
)

// A Reader reads events from a stream. It is for one goroutine.
type Reader struct {
	// Reserve, if it is set, is called before the buffer becomes larger than 64 KiB, with the bytes
	// that are added, and with a minus when it becomes smaller again. An error ends the stream.
	Reserve func(bytes int64) error

	// Comment, if it is set, is called for each comment, before Next returns. Providers send comments
	// to keep a connection alive.
	Comment func()

	// Raw is set before the first call of Next if events are needed byte for byte. Next then returns
	// blocks without a data field, such as comments, as events without Data, so that the results of
	// Block after each event are the stream.
	Raw bool

	// Lines is set before the first call of Next if the stream has no fields: each line that is not
	// empty is an event, and all of it is Data. It cannot be combined with Raw.
	Lines bool

	src io.Reader
	err error // of src; complete events in buf are returned first

	// buf[dataStart:dataEnd] is the data of the event being read, joined already; buf[pos:] are the
	// bytes not yet split into lines. The bytes in between have been used.
	buf                []byte
	dataStart, dataEnd int
	pos                int
	lf, cr             lineEnd
	rawStart           int    // of the event being read, if Raw is set
	joined             []byte // its data, if Raw is set and the data has several lines

	event   Event
	hasData bool
	afterCR bool // an LF that comes now belongs to the line before
	started bool // the first line, which may have a byte order mark, is behind
	names   map[string]string
}

// NewReader returns a Reader of src. It reads no more from src than it needs to complete the next
// event.
func NewReader(src io.Reader) *Reader {
	return &Reader{src: src, lf: lineEnd{char: '\n', at: -1}, cr: lineEnd{char: '\r', at: -1}}
}

// Next returns the next event as soon as its blank line has arrived. At the end of the stream it
// returns io.EOF, after an event that had no blank line. Any other error is from the underlying
// reader, or ErrTooLong; an event it cut off is dropped. Events without a data field are skipped,
// as the definition requires, unless Raw is set.
func (r *Reader) Next() (Event, error) {
	r.reset()
	if r.Lines {
		return r.nextLine()
	}
	if r.Raw {
		r.rawStart, r.joined = r.pos, r.joined[:0]
	}
	for {
		start, end, ok := r.line()
		switch {
		case ok && start < end:
			r.field(start, end)
		case ok && (r.hasData || r.Raw):
			return r.dispatch(nil)
		case ok:
			r.reset()
		case r.err == nil:
			r.fill()
		case r.err == io.EOF:
			r.field(start, end)
			return r.dispatch(io.EOF)
		default:
			return Event{}, r.err
		}
	}
}

// nextLine is Next for a Reader with Lines. The last line may have no end.
func (r *Reader) nextLine() (Event, error) {
	for {
		start, end, ok := r.line()
		switch {
		case start < end:
			return Event{Data: r.buf[start:end:end]}, nil
		case ok: // an empty line
		case r.err == nil:
			r.fill()
		default:
			return Event{}, r.err
		}
	}
}

// Block returns all bytes of the last event, if Raw is set. They are valid until the next call of
// Next.
func (r *Reader) Block() []byte { return r.buf[r.rawStart:r.pos:r.pos] }

// Ready reports whether the next event has arrived already, so that Next will return it without
// waiting. It may return false for an event that has arrived: it recognizes only the plainest form
// of an event, one that begins with its data, or with its name and then its data.
func (r *Reader) Ready() bool {
	rest := bytes.TrimLeft(r.buf[r.pos:], "\r\n")
	if r.Lines {
		return bytes.IndexByte(rest, '\n') >= 0
	}
	if bytes.HasPrefix(rest, []byte("event:")) {
		rest = rest[bytes.IndexByte(rest, '\n')+1:] // all of it, if there is no line feed
	}
	if !bytes.HasPrefix(rest, []byte("data:")) {
		return false
	}
	// Only the lines of the next event: the bytes behind it are read with later events.
	for {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return false
		}
		rest = rest[end+1:]
		if len(rest) > 0 && rest[0] == '\n' || len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n' {
			return true
		}
	}
}

// dispatch returns the event, or err when there is none.
func (r *Reader) dispatch(err error) (Event, error) {
	if r.Raw {
		return r.dispatchRaw(err)
	}
	if !r.hasData {
		return Event{}, err
	}
	r.event.Data = r.buf[r.dataStart:r.dataEnd:r.dataEnd]
	return r.event, nil
}

// dispatchRaw is dispatch for a Reader with Raw. An event ends with its whole line end, unless the
// line feed of it is still on its way.
func (r *Reader) dispatchRaw(err error) (Event, error) {
	if r.afterCR && r.pos < len(r.buf) && r.buf[r.pos] == '\n' {
		r.pos, r.afterCR = r.pos+1, false
	}
	if r.rawStart == r.pos {
		return Event{}, err
	}
	switch {
	case len(r.joined) > 0:
		r.event.Data = r.joined
	case r.hasData:
		r.event.Data = r.buf[r.dataStart:r.dataEnd:r.dataEnd]
	}
	return r.event, nil
}

func (r *Reader) reset() {
	r.event, r.hasData = Event{}, false
	r.dataStart, r.dataEnd = r.pos, r.pos
}

// line moves behind the next line and returns its position in the buffer, without its end. If there
// is no whole line and nothing more will come, it does the same with the remaining bytes, but ok is
// false.
func (r *Reader) line() (start, end int, ok bool) {
	if r.afterCR && r.pos < len(r.buf) {
		r.afterCR = false
		if r.buf[r.pos] == '\n' {
			r.pos++
		}
	}
	start, end = r.pos, r.lineEnd()
	switch {
	case end >= 0 && end-start <= MaxLine:
		r.pos = end + 1
		r.afterCR = r.buf[end] == '\r'
		ok = true
	case end >= 0 || len(r.buf)-start > MaxLine:
		r.err = ErrTooLong
		return start, start, false
	case r.err == io.EOF:
		r.pos = len(r.buf)
		end = r.pos
	default:
		return start, start, false
	}
	if !r.started {
		r.started = true
		if bytes.HasPrefix(r.buf[start:end], []byte("\ufeff")) {
			start += len("\ufeff")
		}
	}
	return start, end, ok
}

// lineEnd returns the offset of the next line feed or carriage return, or -1.
func (r *Reader) lineEnd() int {
	lf := r.lf.find(r.buf, r.pos, len(r.buf))
	if lf < 0 {
		return r.cr.find(r.buf, r.pos, len(r.buf))
	}
	// Only up to the line feed: the bytes behind it belong to other lines, and may be many.
	if cr := r.cr.find(r.buf, r.pos, lf); cr >= 0 {
		return min(cr, lf)
	}
	return lf
}

// A lineEnd caches the position of the next line feed, or carriage return, so that no byte is
// searched twice.
type lineEnd struct {
	char byte
	at   int // of one found, maybe already passed
	seen int // there is none between the position and here, apart from the one at at
}

// find returns the offset of the first char in buf[from:to], or -1. It may also return one beyond
// to.
func (e *lineEnd) find(buf []byte, from, to int) int {
	if e.at >= from {
		return e.at
	}
	from = max(from, e.seen)
	if from >= to {
		return -1
	}
	n := bytes.IndexByte(buf[from:to], e.char)
	if n < 0 {
		e.seen = to
		return -1
	}
	e.at = from + n
	e.seen = e.at + 1
	return e.at
}

// field takes the line at buf[start:end] into the event.
func (r *Reader) field(start, end int) {
	name := r.buf[start:end]
	value := end // where it starts
	if colon := bytes.IndexByte(name, ':'); colon >= 0 {
		name = name[:colon]
		value = start + colon + 1
		if value < end && r.buf[value] == ' ' {
			value++
		}
		if colon == 0 {
			if r.Comment != nil {
				r.Comment()
			}
			return
		}
	}
	switch string(name) {
	case "data":
		r.data(value, end)
	case "event":
		r.event.Name = r.intern(r.buf[value:end])
	}
}

// data joins a data line to those before it. The first stays where it is; the next ones move down
// in the buffer, where at least their field name made room, or to joined if Raw is set.
func (r *Reader) data(start, end int) {
	if !r.hasData {
		r.hasData = true
		r.dataStart, r.dataEnd = start, end
		return
	}
	if r.Raw {
		if len(r.joined) == 0 {
			r.joined = append(r.joined, r.buf[r.dataStart:r.dataEnd]...)
		}
		r.joined = append(append(r.joined, '\n'), r.buf[start:end]...)
		return
	}
	r.buf[r.dataEnd] = '\n'
	r.dataEnd += 1 + copy(r.buf[r.dataEnd+1:], r.buf[start:end])
}

// intern returns name as a string, the same one each time: streams have few names.
func (r *Reader) intern(name []byte) string {
	if s, ok := r.names[string(name)]; ok {
		return s
	}
	s := string(name)
	if len(r.names) < 32 && len(s) <= 64 {
		if r.names == nil {
			r.names = make(map[string]string)
		}
		r.names[s] = s
	}
	return s
}

package dialect

import (
	"bytes"

	"perigee"
)

// Frames writes the provider's own stream for clients of its dialect. The zero value has no dialect,
// and skips all frames.
type Frames struct {
	Dialect perigee.Dialect

	framed bool // the provider's own stream is written, and everything is in it
	open   bool // its last block has no blank line at its end
}

// Encode appends a frame. done is true if nothing else is to be written for the event: it is a
// frame, or is contained in one.
func (f *Frames) Encode(dst []byte, ev *perigee.Event) (out []byte, done bool) {
	frame := ev.Kind == perigee.EventFrame
	if ev.Dialect != f.Dialect || f.Dialect == "" || !frame && ev.Kind != perigee.EventStart {
		return dst, f.framed || frame
	}
	if f.framed = true; frame {
		f.open = !endsBlank(ev.Frame)
	}
	return append(dst, ev.Frame...), true
}

// Framed reports whether the provider's own stream is written.
func (f *Frames) Framed() bool { return f.framed }

// Fail ends the last block, so that an event with an error can follow. If the provider's own stream
// has such an event, it appends that, and done is true.
func (f *Frames) Fail(dst []byte, err *perigee.Error) (out []byte, done bool) {
	if !f.framed {
		return dst, false
	}
	if f.open {
		dst = append(dst, "\n\n"...)
	}
	frame := err.RawFrame(f.Dialect)
	return append(dst, frame...), frame != nil
}

// endsBlank reports whether a block ends with a blank line.
func endsBlank(block []byte) bool {
	line := trimLineEnd(block)
	return len(line) < len(block) && (len(line) == 0 || len(trimLineEnd(line)) < len(line))
}

// trimLineEnd removes one LF, CRLF or CR.
func trimLineEnd(b []byte) []byte {
	if line, ok := bytes.CutSuffix(b, []byte("\n")); ok {
		return bytes.TrimSuffix(line, []byte("\r"))
	}
	return bytes.TrimSuffix(b, []byte("\r"))
}

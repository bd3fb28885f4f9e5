package redact

import (
	"errors"
	"io"
)

// A Stream replaces known secrets in a text that comes in pieces, such as the body of an answer.
// The zero value is ready; each text needs its own. A secret is found
//   - wherever pieces begin and end,
//   - unencoded,
//   - with any of its characters escaped as in JSON (\u002d, \/, \"), also in JSON inside of strings
//     of JSON,
//   - with any of its characters percent-encoded, up to three times, and with + for a space,
//   - in base64 of any text that it is a part of, as in basic authentication, also in lines of at
//     least 60 characters if the secret has at least 13.
//
// Secrets of less than eight characters are found only unencoded, and only where they are words of
// their own. A secret that is spread over several strings, such as the text deltas of a stream of
// events, is not found; Deltas is for that.
//
// The end of the text is held back while it may be the beginning of a secret. It takes one pass
// over the text, however many secrets there are, and allocates nothing if no secret is found.
type Stream struct {
	held    []byte
	covered int     // bytes of held that a mark has replaced already
	before  [2]byte // the last bytes before held
	// next is how many bytes are held before the next search, so that each search has as many new
	// bytes as old ones.
	next int
}

// piece is how many bytes of a text are searched at once.
const piece = 32 << 10

// Append appends the text to dst up to where it is certain. r has the secrets, and may be another
// Redactor for each piece.
func (s *Stream) Append(dst []byte, r *Redactor, text []byte) []byte {
	if !r.hasSecrets() {
		return append(s.release(dst), text...)
	}
	hold := r.index().longest - 1 + maxEscape
	for len(s.held) > 0 && len(text) > 0 { // as much of the text is copied as a search needs
		held, n := len(s.held), min(len(text), 4*hold)
		if s.held = append(s.held, text[:n]...); len(s.held) < max(2*hold, s.next) {
			text = text[n:]
			continue
		}
		done := 0
		if dst, done = s.advance(dst, r, s.held); done < held {
			s.keep(s.held[done:])
			text = text[n:]
		} else {
			s.held = s.held[:0]
			text = text[done-held:]
		}
	}
	done := 0
	if len(text) >= 2*hold {
		dst, done = s.advance(dst, r, text)
	}
	if len(text) > 0 {
		s.keep(text[done:])
	}
	return dst
}

// advance appends a text up to where it is certain, and returns how many bytes that are.
func (s *Stream) advance(dst []byte, r *Redactor, text []byte) (rest []byte, done int) {
	hold := r.index().longest - 1 + maxEscape
	for {
		n := 0
		dst, n = s.search(dst, r, text[done:min(done+max(piece, 4*hold), len(text))], false)
		if done += n; n == 0 || len(text)-done < 2*hold {
			return dst, done
		}
	}
}

// Close appends the text that was held back. The Stream is ready for another text.
func (s *Stream) Close(dst []byte, r *Redactor) []byte {
	if r.hasSecrets() {
		dst, _ = s.search(dst, r, s.held, true)
		s.held = s.held[:0]
	}
	dst = s.release(dst)
	*s = Stream{held: s.held[:0]}
	return dst
}

// AppendAll appends a whole text to dst, as a Stream does.
func (r *Redactor) AppendAll(dst, text []byte) []byte {
	if !r.hasSecrets() {
		return append(dst, text...)
	}
	var s Stream
	size := r.searchSize()
	for done := 0; ; {
		n, end := 0, min(done+size, len(text))
		dst, n = s.search(dst, r, text[done:end], end == len(text))
		if done += n; done == len(text) {
			return dst
		}
	}
}

// searchSize is how many bytes of a whole text are searched at once. It is more than a secret in
// the longest escapes takes.
func (r *Redactor) searchSize() int { return max(piece, 8*r.index().longest*maxEscape) }

// Clean returns a whole text without the secrets, as a Stream does. The result is text itself if it
// has none.
func (r *Redactor) Clean(text []byte) []byte {
	if !r.hasSecrets() {
		return text
	}
	memory := searches.Get().(*search)
	defer searches.Put(memory)
	var before [2]byte
	for done, size := 0, r.searchSize(); done < len(text); {
		end := min(done+size, len(text))
		spans, complete := r.index().find(memory, text[done:end], before, end == len(text))
		if len(spans) > 0 {
			return r.AppendAll(make([]byte, 0, len(text)+len(text)/8), text)
		}
		if done += complete; done >= 2 {
			before = [2]byte(text[done-2 : done])
		}
	}
	return text
}

// Copy writes a text without the secrets, as a Stream does, and holds little of it in memory.
func (r *Redactor) Copy(to io.Writer, from io.Reader) error {
	var s Stream
	var out []byte
	for buffer := make([]byte, piece); ; {
		n, err := from.Read(buffer)
		out = s.Append(out[:0], r, buffer[:n])
		if err != nil {
			out = s.Close(out, r)
		}
		if _, failed := to.Write(out); failed != nil {
			return failed
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Finds reports whether a text has one of the secrets.
func (r *Redactor) Finds(text []byte) bool {
	if !r.hasSecrets() {
		return false
	}
	memory := searches.Get().(*search)
	defer searches.Put(memory)
	spans, _ := r.index().find(memory, text, [2]byte{}, true)
	return len(spans) > 0
}

func (r *Redactor) hasSecrets() bool { return r != nil && len(r.forms) > 0 }

// search appends the text up to where it is certain, and returns how many bytes that are.
func (s *Stream) search(dst []byte, r *Redactor, text []byte, final bool) ([]byte, int) {
	memory := searches.Get().(*search)
	defer searches.Put(memory)
	spans, complete := r.index().find(memory, text, s.before, final)
	covered := s.covered
	at := min(covered, complete)
	for _, found := range spans {
		if found.start >= complete {
			break // it is found again
		}
		if found.start >= covered {
			dst = append(append(dst, text[at:found.start]...), r.mark...)
		}
		covered = max(covered, found.end)
		at = min(covered, complete)
	}
	s.covered = max(0, covered-complete)
	switch {
	case complete >= 2:
		s.before = [2]byte(text[complete-2 : complete])
	case complete == 1:
		s.before = [2]byte{s.before[1], text[0]}
	}
	return append(dst, text[at:complete]...), complete
}

// release appends the held text, without a search.
func (s *Stream) release(dst []byte) []byte {
	dst = append(dst, s.held[min(s.covered, len(s.held)):]...)
	s.held, s.covered = s.held[:0], 0
	return dst
}

// maxKept is how much memory a Stream keeps for texts that follow.
const maxKept = 4 << 10

// keep holds back the end of a text.
func (s *Stream) keep(rest []byte) {
	if cap(s.held) > max(maxKept, 4*len(rest)) || cap(s.held) < len(rest) {
		s.held = append(make([]byte, 0, 2*len(rest)), rest...)
	} else {
		s.held = append(s.held[:0], rest...)
	}
	s.next = 2 * len(s.held)
}

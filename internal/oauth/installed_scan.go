package oauth

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"perigee"
)

// The form of the provider's OAuth clients: an id is digits, a dash, lower-case letters and digits, and idEnd; a secret is
// secretStart and secretRest more characters.
const (
	idEnd       = ".apps.googleusercontent.com"
	maxIDName   = 64 // between dash and idEnd
	minIDNumber = 6  // digits before the dash
	maxIDNumber = 20

	secretStart = "GOC" + "SPX-" // in two, lest it be taken for a credential
	secretRest  = 28
)

// How a file is read: in blocks, keeping of the one before what a match may need.
const (
	blockSize  = 256 << 10
	lookBehind = 128 // an id begins before the end that it is found by
	lookAhead  = 64  // a secret ends after the beginning that it is found by
)

// A sighting is an id or a secret, with its place in the file.
type sighting struct {
	at, end int64
	id      string // empty: it is a secret
	secret  perigee.Secret
}

// scan reads r to its end and hands on each id and secret in it, in order. Where texts are packed, what follows a secret may
// belong to something else; elsewhere a longer word is no secret. It returns how much was read.
func scan(ctx context.Context, r io.Reader, packed bool, take func(sighting)) (n int64, err error) {
	s := scanner{buf: make([]byte, lookBehind+lookAhead+blockSize), packed: packed}
	defer clear(s.buf)
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		m, err := io.ReadFull(r, s.buf[s.filled:])
		n += int64(m)
		s.filled += m
		until := s.filled - lookAhead
		if err != nil {
			until = s.filled
		}
		for _, t := range s.sightings(until) {
			take(t)
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return n, nil
		case err != nil:
			return n, err
		}
		s.slide(until)
	}
}

// A scanner is the part of a file that is in memory.
type scanner struct {
	buf    []byte
	filled int
	from   int   // what begins before it was looked at
	base   int64 // where buf stands in the file
	packed bool
}

// slide makes room for the next block.
func (s *scanner) slide(until int) {
	s.from = until
	drop := max(s.from-lookBehind, 0)
	copy(s.buf, s.buf[drop:s.filled])
	s.from -= drop
	s.filled -= drop
	s.base += int64(drop)
}

// sightings returns what is marked from s.from to until, in order.
func (s *scanner) sightings(until int) (list []sighting) {
	for at := range s.marks(idEnd, until) {
		if begin, ok := s.idBefore(at); ok {
			list = append(list, sighting{at: s.base + int64(begin), end: s.base + int64(at+len(idEnd)), id: string(s.buf[begin : at+len(idEnd)])})
		}
	}
	for at := range s.marks(secretStart, until) {
		if end, ok := s.secretAfter(at); ok {
			list = append(list, sighting{at: s.base + int64(at), end: s.base + int64(end), secret: perigee.NewSecret(string(s.buf[at:end]))})
		}
	}
	slices.SortFunc(list, func(a, b sighting) int { return cmp.Compare(a.at, b.at) })
	return list
}

// marks are the places where a text begins.
func (s *scanner) marks(text string, until int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for at := s.from; ; at++ {
			i := bytes.Index(s.buf[at:s.filled], []byte(text))
			if i < 0 || at+i >= until || !yield(at+i) {
				return
			}
			at += i
		}
	}
}

// idBefore finds where the id begins that ends with the idEnd at a place.
func (s *scanner) idBefore(at int) (begin int, ok bool) {
	dash := at
	for dash > 0 && at-dash <= maxIDName && (isLower(s.buf[dash-1]) || isDigit(s.buf[dash-1])) {
		dash--
	}
	if dash == at || at-dash > maxIDName || dash == 0 || s.buf[dash-1] != '-' {
		return 0, false
	}
	dash--
	begin = dash
	for begin > 0 && dash-begin <= maxIDNumber && isDigit(s.buf[begin-1]) {
		begin--
	}
	return begin, dash-begin >= minIDNumber && dash-begin <= maxIDNumber
}

// secretAfter finds where the secret ends that begins at a place.
func (s *scanner) secretAfter(at int) (end int, ok bool) {
	rest := at + len(secretStart)
	end = rest + secretRest
	if end > s.filled || slices.ContainsFunc(s.buf[rest:end], func(c byte) bool { return !isSecret(c) }) {
		return 0, false
	}
	return end, s.packed || end == s.filled || !isSecret(s.buf[end])
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isSecret(c byte) bool {
	return isDigit(c) || isLower(c) || c >= 'A' && c <= 'Z' || c == '_' || c == '-'
}

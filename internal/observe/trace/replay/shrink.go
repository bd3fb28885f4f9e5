package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"perigee"
)

// errDifferent is the error if the original request does not fail in the expected way.
var errDifferent = errors.New("the request does not fail in this way any more")

// maxCalls is the default of searchOptions.maxCalls.
const maxCalls = 200

// searchOptions have the test of a request, and the limits of the search.
type searchOptions struct {
	// fails reports whether a request fails in the way that must stay. Its error ends the search.
	fails func(ctx context.Context, request []byte) (bool, error)
	// maxCalls bounds how often fails is called; 0 means the constant maxCalls.
	maxCalls int
	// progress is called after each call of fails with the number of calls and the size of the
	// smallest request so far. It may be nil.
	progress func(calls, size int)
}

// minimize returns a request that fails as the given one does and is at most as large. It ends when
// there is nothing left to try, after maxCalls calls, and when ctx ends: none of these is an error,
// and the result is the best so far. The error is the error of fails, along with the best result so
// far, or errDifferent.
func minimize(ctx context.Context, request []byte, opts searchOptions) (*Shrunk, error) {
	if opts.maxCalls <= 0 {
		opts.maxCalls = maxCalls
	}
	root, err := parse(request)
	if err != nil {
		return &Shrunk{}, perigee.Errorf(perigee.ClassInvalid, "the request is not JSON: %w", err)
	}
	s := &search{ctx: ctx, opts: opts, doc: newDocument(root), best: request, before: len(request), seen: map[[sha256.Size]byte]bool{}}
	if !s.fails(request) {
		if s.err == nil && ctx.Err() == nil {
			s.err = errDifferent
		}
		return s.result(false), s.err
	}
	s.current = version{without: map[*node]bool{}, texts: map[*node]string{}}
	for changed := true; changed && !s.over(); {
		changed = s.pass()
	}
	return s.result(!s.over()), s.err
}

// A search is one run of minimize.
type search struct {
	ctx     context.Context
	opts    searchOptions
	doc     *document
	current version // the smallest version that fails so far
	best    []byte  // current as text
	before  int     // the size of the request at first
	seen    map[[sha256.Size]byte]bool
	calls   int
	err     error
}

// result returns the smallest request so far. whole is set if nothing is left to try.
func (s *search) result(whole bool) *Shrunk {
	return &Shrunk{Calls: s.calls, Before: s.before, Bytes: len(s.best), Whole: whole, Request: string(s.best)}
}

// over reports whether no request may be tried any more.
func (s *search) over() bool {
	return s.err != nil || s.ctx.Err() != nil || s.calls >= s.opts.maxCalls
}

// fails tries a request, unless it was tried before.
func (s *search) fails(request []byte) bool {
	sum := sha256.Sum256(request)
	if s.over() || s.seen[sum] {
		return false
	}
	s.seen[sum] = true
	s.calls++
	same, err := s.opts.fails(s.ctx, request)
	if err != nil {
		if s.ctx.Err() == nil {
			s.err = err
		}
		return false
	}
	if same {
		s.best = request
	}
	if s.opts.progress != nil {
		s.opts.progress(s.calls, len(s.best))
	}
	return same
}

// try makes a version the current one if it is smaller and fails.
func (s *search) try(v version) bool {
	s.doc.complete(v)
	request := v.append(make([]byte, 0, len(s.best)), s.doc.root)
	if len(request) >= len(s.best) || v.without[s.doc.root] || !s.fails(request) {
		return false
	}
	s.current = v
	return true
}

// tryWithout tries the current version without some values.
func (s *search) tryWithout(list []*node) bool {
	v := s.current.clone()
	for _, n := range list {
		v.without[n] = true
	}
	return s.try(v)
}

// pass goes once over all values, the largest first, and reports whether it has made the request
// smaller.
func (s *search) pass() bool {
	before := len(s.best)
	open := []*node{s.doc.root}
	for len(open) > 0 && !s.over() {
		largest := 0
		for i := range open {
			if s.current.size(open[i]) > s.current.size(open[largest]) {
				largest = i
			}
		}
		n := open[largest]
		open = slices.Delete(open, largest, largest+1)
		if !s.current.has(n) {
			continue
		}
		if n.kind == text {
			s.shorten(n)
			continue
		}
		s.reduce(n)
		for _, child := range s.current.children(n) {
			if child.kind == text || len(child.list) > 0 {
				open = append(open, child)
			}
		}
	}
	return len(s.best) < before
}

// reduce leaves out as many children of a value as possible.
func (s *search) reduce(n *node) {
	var list []*node
	for _, child := range s.current.children(n) {
		if s.doc.removable(child) {
			list = append(list, child)
		}
	}
	switch {
	case len(list) == 0:
		return
	case n.kind == array && nonempty[n.name()] && !s.doc.free[n]:
		// One has to stay. The last message is the one that is answered, so it is tried first.
		if len(list) == 1 || s.tryWithout(list[:len(list)-1]) {
			return
		}
	case s.tryWithout(list):
		return
	}
	s.ddmin(list)
}

// ddmin is the minimizing delta debugging algorithm: it looks for a part of the list that suffices,
// then for a part that can be left out, in pieces of half the list and smaller.
func (s *search) ddmin(list []*node) {
	for pieces := 2; len(list) > 1 && !s.over(); {
		size := (len(list) + pieces - 1) / pieces
		next, found := s.smaller(list, size)
		switch {
		case found:
			list = next
			pieces = max(min(pieces-1, len(list)), 2)
			if len(next) <= size { // a piece sufficed
				pieces = 2
			}
		case size == 1:
			return
		default:
			pieces = min(2*pieces, len(list))
		}
	}
}

// smaller returns a part of the list that suffices, if there is one among its pieces and their
// complements.
func (s *search) smaller(list []*node, size int) (rest []*node, found bool) {
	var pieces, complements [][]*node
	for i := 0; i < len(list); i += size {
		end := min(i+size, len(list))
		pieces = append(pieces, list[i:end])
		complements = append(complements, slices.Concat(list[:i], list[end:]))
	}
	for i := range pieces {
		if s.tryWithout(complements[i]) {
			return s.left(pieces[i]), true
		}
	}
	if len(pieces) > 2 { // the complement of one of two pieces is the other one
		for i := range pieces {
			if s.tryWithout(pieces[i]) {
				return s.left(complements[i]), true
			}
		}
	}
	return nil, false
}

// left returns the nodes of a list that the current version has.
func (s *search) left(list []*node) []*node {
	return slices.DeleteFunc(slices.Clone(list), func(n *node) bool { return !s.current.has(n) })
}

// shortText is the length up to which texts are not shortened.
const shortText = 16

// shorten replaces a text by the shortest that suffices: a placeholder, or else a part of it.
func (s *search) shorten(n *node) {
	if name := n.name(); !s.doc.free[n] && (name == "role" || name == "type" || name == "model" || strings.HasSuffix(name, "id")) {
		return // another word would be another request
	}
	current, ok := s.current.texts[n]
	if !ok {
		current = n.string()
	}
	if len(current) <= shortText || s.replace(n, placeholder(current)) {
		return
	}
	for step := len(current) / 2; step >= shortText/2 && !s.over(); step /= 2 {
		for _, cut := range []func(string, int) string{withoutEnd, withoutStart} {
			for len(current) > step && s.replace(n, cut(current, step)) {
				current = cut(current, step)
			}
		}
	}
}

// withoutStart returns a text without its first bytes, and without the character that the cut is
// in.
func withoutStart(text string, bytes int) string {
	for bytes < len(text) && !utf8.RuneStart(text[bytes]) {
		bytes++
	}
	return text[bytes:]
}

// withoutEnd returns a text without its last bytes, and without the character that the cut is in.
func withoutEnd(text string, bytes int) string {
	end := len(text) - bytes
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

func (s *search) replace(n *node, text string) bool {
	v := s.current.clone()
	v.texts[n] = text
	return s.try(v)
}

// placeholder returns a replacement for a text. Arguments of functions are JSON inside a text.
func placeholder(text string) string {
	if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "{") && json.Valid(bytes.TrimSpace([]byte(text))) {
		return "{}"
	}
	return "x"
}

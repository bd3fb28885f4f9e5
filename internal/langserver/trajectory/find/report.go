package find

import (
	"fmt"
	"strings"
	"unicode"
)

// A report collects differences from a known form. Each is kept once, with how often it occurred.
type report struct {
	counts map[string]int
	order  []string
}

// maxReported bounds the differences that are kept.
const maxReported = 20

func (r *report) add(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	if r.counts[line] == 0 {
		if len(r.order) == maxReported {
			return
		}
		r.order = append(r.order, line)
	}
	r.counts[line]++
}

// lines are the differences in the order in which they were met.
func (r *report) lines() []string {
	var lines []string
	for _, line := range r.order {
		if n := r.counts[line]; n > 1 {
			line = fmt.Sprintf("%s (%d times)", line, n)
		}
		lines = append(lines, line)
	}
	return lines
}

// maxID is more than an ID has: a UUID has 36 characters.
const maxID = 128

// plausibleID reports whether a text can be the ID of a conversation: it is a name in directories and in messages.
func plausibleID(id string) bool {
	return id != "" && len(id) <= maxID && !strings.ContainsAny(id, `/\`) && id[0] != '.' &&
		strings.IndexFunc(id, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar }) < 0
}

// maxConversations bounds the conversations of one source.
const maxConversations = 50_000

// keep adds a conversation to a listing, if it has an ID.
func (l *Listing) keep(s Summary, r *report) {
	switch {
	case !plausibleID(s.ID):
		r.add("a conversation without an ID")
	case len(l.Conversations) >= maxConversations:
		r.add("more than %d conversations", maxConversations)
	default:
		l.Conversations = append(l.Conversations, s)
	}
}

// unknown is a summary of which nothing is known.
func unknown(id string) Summary { return Summary{ID: id, Steps: -1, InputStep: -1} }

package trajectory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
)

// A Query describes a submitted prompt, and the conversations before it.
type Query struct {
	Prompt string
	// Workspaces are the directories of the window, as paths or URIs. A conversation of another
	// workspace does not match.
	Workspaces []string
	// Conversation is the one that the prompt was submitted to; empty for any.
	Conversation string
	Since        time.Time // when the prompt was submitted; zero means at most Window ago
	// Before has the conversations before the submission, of which ID, Modified and Steps count.
	// If it is empty, they are unknown, and the times of conversations decide.
	Before []Summary
	Window time.Duration // how long to search; default 10 s
}

// A Match is the conversation of a prompt.
type Match struct {
	Conversation string
	Step         int // index of the message; if that was not seen, the step to start at
	// Reader has shown the message. It is nil if no reader can show the steps, and the
	// conversation is the only new one of the workspace, or the one that the query names.
	Reader Reader
	// Degraded has a line for each source and conversation that cannot be used, or only in part.
	Degraded []string
}

// ErrAmbiguous is in the chain of the error if several conversations have started with the prompt.
var ErrAmbiguous = errors.New("several conversations have begun with this prompt")

// Times of a search.
const (
	defaultWindow = 10 * time.Second
	pollFirst     = 250 * time.Millisecond
	pollLast      = time.Second
	// of one reading of one conversation, after which the next reader is tried
	readLimit = 3 * time.Second
	// clockSlack is how much earlier than the submission a time may be, because file systems and
	// JSON round.
	clockSlack = 2 * time.Second
	// stepSlack is the same for the time of a message, which is not rounded.
	stepSlack = 100 * time.Millisecond
	// stableTime is how long a conversation with an unknown workspace has to be the only match.
	stableTime = time.Second
)

// maxCandidates is the number of conversations that are read after one listing, the most recent
// first.
const maxCandidates = 32

// Find searches for the conversation of a prompt until the window ends. It uses sources and
// readers only while it runs; readers are tried in their order. Match.Degraded is also set with an
// error.
//
// A conversation matches if it is new or has changed since the submission and its last message of
// the user is the prompt, except for space around it, and was written since. A match in the
// window's workspace is returned at once; if its workspace is unknown, it has to be the only match
// for a second. A match in another workspace is never returned. If several remain, the error wraps
// ErrAmbiguous and names them.
//
// If no reader can show steps, because they are encrypted or no reader is left, a conversation is
// returned unverified at the end of the window, if it is the only one that is new in the window's
// workspace.
func Find(ctx context.Context, q Query, sources []Source, readers []Reader) (Match, error) {
	q.Prompt = normalize(q.Prompt)
	q.Window = cmp.Or(q.Window, defaultWindow)
	if q.Since.IsZero() {
		q.Since = time.Now().Add(-q.Window)
	}
	if q.Prompt == "" {
		return Match{}, perigee.Errorf(perigee.ClassInvalid, "there is no prompt to search for")
	}
	s := newSearch(q, sources, readers)
	window, cancel := context.WithTimeout(ctx, q.Window)
	defer s.running.Wait()
	defer cancel()
	m, err := s.run(window)
	if ctx.Err() != nil {
		m, err = Match{}, context.Cause(ctx)
	}
	m.Degraded = s.degraded()
	return m, err
}

// A search is one call of Find.
type search struct {
	q       Query
	sources []Source
	readers []Reader
	before  map[string]Summary

	running  sync.WaitGroup
	reports  chan report
	listings []Listing // by source
	failures []error   // by source
	checks   map[string]*check
	slow     []time.Time // by reader: end of the time in which it is not used
	stableAt time.Time   // when the first match has lasted long enough
	notes    []string    // lines of Match.Degraded
}

// A report is one result of a source.
type report struct {
	source  int
	listing Listing
	err     error
}

// A check is the result of reading the steps of one candidate.
type check struct {
	at      time.Time
	summary Summary // state when the steps were read
	err     error   // error of all readers; nil if the steps were read
	match   *Match  // nil if the message is not there
	dated   bool    // the message was certainly written after the submission
}

func newSearch(q Query, sources []Source, readers []Reader) *search {
	s := &search{q: q, sources: sources, readers: readers, reports: make(chan report), listings: make([]Listing, len(sources)),
		failures: make([]error, len(sources)), checks: map[string]*check{}, slow: make([]time.Time, len(readers))}
	if len(q.Before) > 0 {
		s.before = map[string]Summary{}
		for _, k := range q.Before {
			s.before[k.ID] = k
		}
	}
	return s
}

// run evaluates the reports of the sources until there is a match or ctx ends.
func (s *search) run(ctx context.Context) (Match, error) {
	for i := range s.sources {
		s.running.Go(func() { s.watch(ctx, i) })
	}
	pause := pollFirst
	for {
		s.examine(ctx)
		if m, ok := s.decide(); ok {
			return m, nil
		}
		if len(s.sources) == 0 && s.q.Conversation == "" {
			return s.conclude()
		}
		select {
		case n := <-s.reports:
			s.listings[n.source], s.failures[n.source] = n.listing, n.err
		case <-time.After(pause):
			pause = next(pause)
		case <-ctx.Done():
			return s.conclude()
		}
	}
}

func next(pause time.Duration) time.Duration { return min(pause*3/2, pollLast) }

// watch queries one source repeatedly.
func (s *search) watch(ctx context.Context, i int) {
	for pause := pollFirst; ; pause = next(pause) {
		listing, err := s.sources[i].Summaries(ctx)
		if ctx.Err() != nil {
			return
		}
		select {
		case s.reports <- report{i, listing, err}:
		case <-ctx.Done():
			return
		}
		if !perigee.Pause(ctx, pause) {
			return
		}
	}
}

// candidates returns the conversations that are new or have changed, the most recent first.
func (s *search) candidates() []Summary {
	merged := map[string]*Summary{}
	for _, l := range s.listings {
		for _, c := range l.Conversations {
			if known := merged[c.ID]; known != nil {
				known.merge(c)
			} else {
				merged[c.ID] = &c
			}
		}
	}
	if id := s.q.Conversation; id != "" {
		if merged[id] != nil {
			return []Summary{*merged[id]}
		}
		return []Summary{{ID: id}}
	}
	var list []Summary
	for _, c := range merged {
		if s.hasChanged(c) {
			list = append(list, *c)
		}
	}
	slices.SortFunc(list, func(a, b Summary) int { return cmp.Or(b.Modified.Compare(a.Modified), cmp.Compare(a.ID, b.ID)) })
	return list
}

// hasChanged reports whether a conversation may have changed since the submission.
func (s *search) hasChanged(c *Summary) bool {
	if s.isRecent(c.Modified) || s.isRecent(c.Created) || s.isRecent(c.LastInput) {
		return true
	}
	known, ok := s.before[c.ID]
	if !ok {
		return c.Modified.IsZero()
	}
	return !known.Modified.IsZero() && c.Modified.After(known.Modified) || known.Steps > 0 && c.Steps > known.Steps ||
		c.Modified.IsZero() && c.Steps == 0
}

// isNew reports whether a conversation was certainly started since the submission.
func (s *search) isNew(c *Summary) bool {
	if _, known := s.before[c.ID]; known {
		return false
	}
	if !c.Created.IsZero() {
		return s.isRecent(c.Created)
	}
	return s.before != nil && s.isRecent(c.Modified)
}

// isRecent reports whether a time is known and not before the submission.
func (s *search) isRecent(t time.Time) bool {
	return !t.IsZero() && !t.Before(s.q.Since.Add(-clockSlack))
}

// decide returns the match if it is unambiguous.
func (s *search) decide() (Match, bool) {
	same, open := s.matches()
	if len(same) == 1 {
		return *same[0].match, true
	}
	if len(same) > 1 || len(open) == 0 {
		s.stableAt = time.Time{}
		return Match{}, false
	}
	if s.stableAt.IsZero() {
		s.stableAt = time.Now().Add(stableTime)
	}
	if len(open) == 1 && (s.q.Conversation != "" || !time.Now().Before(s.stableAt)) {
		return *open[0].match, true
	}
	return Match{}, false
}

// matches returns the checks that have found the message: in the query's workspace, and in an
// unknown one. A message that has a time counts before one that has none.
func (s *search) matches() (same, open []*check) {
	for _, dated := range []bool{true, false} {
		for _, c := range s.checks {
			if c.match == nil || c.dated != dated {
				continue
			}
			switch rel := relate(s.q.Workspaces, c.summary.Workspaces); {
			case rel == relationSame || s.q.Conversation != "":
				same = append(same, c)
			case rel == relationUnknown:
				open = append(open, c)
			}
		}
		if len(same)+len(open) > 0 {
			break
		}
	}
	return same, open
}

// conclude returns the result at the end of the window.
func (s *search) conclude() (Match, error) {
	same, open := s.matches()
	matches := same
	if len(same) == 0 {
		matches = open
	}
	switch len(matches) {
	case 0:
		return s.unverified()
	case 1:
		return *matches[0].match, nil
	}
	var ids []string
	for _, c := range matches {
		ids = append(ids, c.match.Conversation)
	}
	slices.Sort(ids)
	return Match{}, perigee.Errorf(perigee.ClassUnavailable, "%w: %s", ErrAmbiguous, strings.Join(ids, ", ")).
		WithHint("continue one of them by its ID")
}

// unverified returns the result if no message was seen.
func (s *search) unverified() (Match, error) {
	var elsewhere []string
	for id, c := range s.checks {
		if c.match != nil {
			elsewhere = append(elsewhere, id)
		}
	}
	if len(elsewhere) > 0 {
		slices.Sort(elsewhere)
		return Match{}, s.notFound("conversations of another workspace have begun with this prompt: " + strings.Join(elsewhere, ", "))
	}
	list := s.candidates()
	var unread []Summary
	for _, c := range list {
		if k := s.checks[c.ID]; k == nil || k.err != nil {
			unread = append(unread, c)
		}
	}
	if s.q.Conversation != "" && len(unread) == 1 {
		if k := s.checks[s.q.Conversation]; k != nil && perigee.AsError(k.err).Class == perigee.ClassNotFound {
			return Match{}, s.notFound("no source knows the conversation " + s.q.Conversation)
		}
		return s.accept(unread[0], "the steps of the conversation cannot be read"), nil
	}
	if len(unread) == 1 && s.isNew(&unread[0]) && relate(s.q.Workspaces, unread[0].Workspaces) == relationSame {
		return s.accept(unread[0], "no reader can show the messages; this is the only new conversation of the workspace"), nil
	}
	switch {
	case len(list) == 0:
		return Match{}, s.notFound("no conversation has changed since")
	case len(unread) == 0:
		return Match{}, s.notFound(fmt.Sprintf("%d conversations have changed since, and none of them has the prompt", len(list)))
	}
	return Match{}, s.notFound(fmt.Sprintf("%d conversations have changed since, of which %d cannot be read", len(list), len(unread)))
}

func (s *search) accept(c Summary, why string) Match {
	s.notes = append(s.notes, "search: "+why)
	return Match{Conversation: c.ID, Step: s.before[c.ID].Steps}
}

func (s *search) notFound(why string) error {
	return perigee.Errorf(perigee.ClassNotFound, "the conversation of the prompt was not found within %v: %s", s.q.Window, why).
		WithHint("look for it in the IDE; the prompt was submitted there")
}

// degraded returns all differences and failures at the end of the search.
func (s *search) degraded() []string {
	list := slices.Clone(s.notes)
	for i, source := range s.sources {
		if err := s.failures[i]; err != nil {
			list = append(list, source.Name+": "+message(err))
			continue
		}
		for _, line := range s.listings[i].Degraded {
			list = append(list, source.Name+": "+line)
		}
	}
	for id, c := range s.checks {
		if c.err != nil {
			list = append(list, "conversation "+id+": "+message(c.err))
		}
	}
	slices.Sort(list)
	return list
}

// message returns the text of an error without its hint, which does not apply here, and without
// the directory of a file, which contains the name of the user.
func message(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*perigee.Error](err); ok {
		text = e.Message
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		text = strings.ReplaceAll(text, e.Path, filepath.Base(e.Path))
	}
	return text
}

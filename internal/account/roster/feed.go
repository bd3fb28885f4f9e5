package roster

import (
	"slices"
	"sync"
)

// A ChangeKind is the kind of a change of an account.
type ChangeKind string

// The kinds of changes.
const (
	Added     ChangeKind = "added"
	Updated   ChangeKind = "updated" // enabled or not, preferred or not, state, project, or a new sign-in
	Removed   ChangeKind = "removed"
	Refreshed ChangeKind = "refreshed" // the account has a new access token
)

// A Change of one account. The account's new state is read from its Roster.
type Change struct {
	Upstream, Email string
	Kind            ChangeKind
}

// A Feed delivers changes of accounts to any number of subscribers. Several rosters share one, and
// it outlives them: after a reload a new Roster of the same upstream reports its accounts as added.
// A nil Feed has no subscribers.
type Feed struct {
	mu          sync.Mutex
	subscribers []*queue[Change]
}

// Subscribe has deliver called with each change from now on, one at a time and in order, in a
// goroutine of the subscriber. A slow subscriber therefore delays neither calls nor other
// subscribers; equal changes that wait for it are delivered once. After cancel no delivery begins.
func (f *Feed) Subscribe(deliver func(Change)) (cancel func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := &queue[Change]{handle: deliver}
	f.subscribers = append(f.subscribers, q)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.subscribers = slices.DeleteFunc(f.subscribers, func(s *queue[Change]) bool { return s == q })
		q.drop()
	}
}

func (f *Feed) publish(c Change) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.subscribers {
		q.add(c)
	}
}

// publish sends subscribers a change of an account of the roster.
func (r *Roster) publish(email string, kind ChangeKind) {
	r.feed.publish(Change{Upstream: r.upstream, Email: email, Kind: kind})
}

// visible holds the values of an account of which an Updated change informs.
type visible struct {
	source                   *Source // another one has another sign-in
	enabled, preferred       bool
	state, reason, projectID string
}

func visibleOf(sources []*Source) map[string]visible {
	m := make(map[string]visible, len(sources))
	for _, s := range sources {
		signIn := s.SignIn()
		m[signIn.Email] = visible{s, signIn.Enabled, signIn.Preferred, signIn.State, signIn.Reason, signIn.ProjectID}
	}
	return m
}

// publishDifference sends subscribers the changes that a load has made.
func (r *Roster) publishDifference(before, after map[string]visible) {
	for email, now := range after {
		switch was, known := before[email]; {
		case !known:
			r.publish(email, Added)
		case was != now:
			r.publish(email, Updated)
		}
	}
	for email := range before {
		if _, kept := after[email]; !kept {
			r.publish(email, Removed)
		}
	}
}

// learned reports a change of an account to the pool and the subscribers.
func (r *Roster) learned(s *Source) {
	r.pool.Learn(s)
	r.publish(s.SignIn().Email, Updated)
}

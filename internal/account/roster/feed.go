package roster

import (
	"slices"
	"sync"
)

// A Feed informs subscribers about changes of accounts: an account was added, updated or removed,
// or has a new access token. Several rosters share one, and it outlives them: after a reload the
// new Roster of an upstream reports its accounts as a change. A nil Feed has no subscribers.
type Feed struct {
	mu          sync.Mutex
	subscribers []*func(upstream string)
}

// Subscribe has notify called after each change, with the upstream that the accounts belong to;
// their new state is read from its Roster. notify may be called by any goroutine that makes a call:
// it must not block, and must not use the Feed. After cancel it is not called any more.
func (f *Feed) Subscribe(notify func(upstream string)) (cancel func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribers = append(f.subscribers, &notify)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.subscribers = slices.DeleteFunc(f.subscribers, func(s *func(string)) bool { return s == &notify })
	}
}

// publish informs subscribers about a change of the accounts of an upstream.
func (f *Feed) publish(upstream string) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, notify := range f.subscribers {
		(*notify)(upstream)
	}
}

// visible holds the values of an account that subscribers are informed about.
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

// publishUpdate reports a change of an account to the pool and the subscribers.
func (r *Roster) publishUpdate(s *Source) {
	r.pool.Learn(s)
	r.feed.publish(r.upstream)
}

package extserver

// A Subscription has the updates of one topic that were not read yet.
type Subscription struct {
	store *topicStore
	topic string
	ended func()
	ready chan struct{} // has a value when there is an update to read

	// Guarded by the mutex of the store.
	waiting []Update
	bytes   int
	err     error // why the subscription has ended
}

// Ready has a value when Next has something to return.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Next returns the next update, or false if there is none at the moment. Once the store has ended
// the subscription, Next returns the reason as an error, and the waiting updates are dropped: a
// reader that was too slow needs a new snapshot anyway.
func (s *Subscription) Next() (Update, bool, error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if s.err != nil || len(s.waiting) == 0 {
		return Update{}, false, s.err
	}
	u := s.waiting[0]
	s.waiting[0] = Update{} // its value may be large
	s.waiting = s.waiting[1:]
	s.bytes -= u.size()
	return u, true, nil
}

// Close ends the subscription. It may be called more than once.
func (s *Subscription) Close() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if t := s.store.topics[s.topic]; t != nil {
		delete(t.subscriptions, s)
		s.store.prune(s.topic)
	}
	s.waiting, s.ended = nil, nil
	if s.err == nil {
		s.err = ErrClosed
	}
}

// add queues an update. It returns false if that exceeds the limits, which ends the subscription.
func (s *Subscription) add(u Update, limits topicLimits) bool {
	if len(s.waiting) > 0 && (len(s.waiting) >= limits.Updates || s.bytes+u.size() > limits.Waiting) {
		s.end(ErrSlow)
		return false
	}
	s.waiting = append(s.waiting, u)
	s.bytes += u.size()
	s.signal()
	return true
}

func (s *Subscription) end(err error) {
	s.waiting, s.bytes, s.err = nil, 0, err
	s.signal()
	if s.ended != nil {
		go s.ended()
	}
}

func (s *Subscription) signal() {
	select {
	case s.ready <- struct{}{}:
	default: // it has been signaled already
	}
}

package extserver

// A Subscription has the updates of one topic that were not read yet.
type Subscription struct {
	store *topicStore
	topic string
	ended func()
	ready chan struct{} // has a value when there is something to read

	// Guarded by the mutex of the store.
	waiting []Update
	bytes   int
	err     error // why there are no more updates
}

// Ready has a value when Next has something to return.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Next returns the next update; false: there is none at the moment. Once the store has ended the
// subscription, the error says why, and the updates that waited are gone: a reader that was too
// slow needs a new snapshot anyway.
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

// add queues an update; false: it was one too many, and the subscription has ended.
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
	default: // it is known already
	}
}

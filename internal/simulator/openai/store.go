package openai

import "sync"

// maxResponses bounds a Store; the oldest go first.
const maxResponses = 1000

// Store has the responses that may be referred to later.
type Store struct {
	mu    sync.Mutex
	byID  map[string]*stored
	order []string
}

// stored is a response with the conversation that led to it.
type stored struct {
	org   string
	input []any // items, the output included
	body  []byte
}

// Clear forgets all responses.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID, s.order = nil, nil
}

func (s *Store) put(id string, response *stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*stored{}
	}
	if s.byID[id] == nil {
		s.order = append(s.order, id)
	}
	s.byID[id] = response
	if len(s.order) > maxResponses {
		delete(s.byID, s.order[0])
		s.order = s.order[1:]
	}
}

// get returns a response of an organization, or nil.
func (s *Store) get(org, id string) *stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.byID[id]; found != nil && found.org == org {
		return found
	}
	return nil
}

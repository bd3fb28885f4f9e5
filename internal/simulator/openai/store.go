package openai

import (
	"encoding/json"
	"slices"
	"sync"
)

// A Store is bounded; the oldest responses go first.
const (
	maxResponses = 1000
	maxStored    = 64 << 20 // bytes
)

// Store has the responses that later requests may refer to.
type Store struct {
	mu    sync.Mutex
	byID  map[string]*stored
	order []string
	size  int
}

// stored is a response with its part of the conversation.
type stored struct {
	org      string
	previous string // id of the response that it continues, or ""
	items    []any  // input and output
	body     []byte
	size     int
}

// Clear forgets all responses.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID, s.order, s.size = nil, nil, 0
}

func (s *Store) put(id string, response *stored) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]*stored{}
	}
	s.remove(id)
	s.byID[id] = response
	s.order = append(s.order, id)
	s.size += response.size
	for len(s.order) > 1 && (len(s.order) > maxResponses || s.size > maxStored) {
		s.remove(s.order[0])
	}
}

func (s *Store) remove(id string) {
	if found := s.byID[id]; found != nil {
		s.size -= found.size
		delete(s.byID, id)
		s.order = slices.DeleteFunc(s.order, func(each string) bool { return each == id })
	}
}

// find returns a response of an organization, or nil.
func (s *Store) find(org, id string) *stored {
	if found := s.byID[id]; found != nil && found.org == org {
		return found
	}
	return nil
}

// Get returns the body of a response, or the error that there is none.
func (s *Store) Get(org, id string) ([]byte, *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.find(org, id); found != nil {
		return found.body, nil
	}
	return nil, noResponse(id)
}

// Delete forgets a response.
func (s *Store) Delete(org, id string) (any, *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.find(org, id) == nil {
		return nil, noResponse(id)
	}
	s.remove(id)
	return members{{"id", id}, {"object", "response"}, {"deleted", true}}, nil
}

func noResponse(id string) *Error {
	return &Error{Status: 404, Type: invalidRequest, Rule: "response_not_found", Message: "Response with id '" + id + "' not found."}
}

// conversation returns all items up to a response, and false if there is no such response.
func (s *Store) conversation(org, id string) ([]any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []any
	known := s.find(org, id) != nil
	for found := s.find(org, id); found != nil; found = s.find(org, found.previous) {
		items = slices.Concat(found.items, items)
	}
	return items, known
}

// item returns a stored item of an organization, and the reasoning item before it, by its id.
func (s *Store) item(org, id string) (item, before object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, response := range s.byID {
		if response.org != org {
			continue
		}
		for i, each := range response.items {
			if o, ok := each.(object); ok && o["id"] == id {
				if i > 0 {
					before, _ = response.items[i-1].(object)
				}
				if before["type"] != "reasoning" {
					before = nil
				}
				return o, before
			}
		}
	}
	return nil, nil
}

// plain returns a value in the types of decoded JSON.
func plain(v any) any {
	var out any
	_ = json.Unmarshal(Encode(v), &out)
	return out
}

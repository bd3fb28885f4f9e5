package extserver

import (
	"net"
	"net/http"
)

// StartOn starts a server on a listener whose callers are all of this user.
func (s *Server) StartOn(listener net.Listener) error {
	s.peer = func(*http.Request) bool { return true }
	return s.serve(listener)
}

// Remembered returns how many deleted rows are remembered.
func (s *topicStore) Remembered() int { return len(s.deleted) }

// DefaultTopicLimits are the limits of a Server.
var DefaultTopicLimits = defaultTopicLimits

package simulator

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"
)

// Call is one request as the call log keeps it. Tokens and bodies are not kept.
type Call struct {
	Seq       int       `json:"seq"`
	Time      time.Time `json:"time"`
	Method    string    `json:"method"`
	Path      string    `json:"path"`
	Host      string    `json:"host"`
	UserAgent string    `json:"user_agent,omitempty"`
	Account   string    `json:"account,omitempty"`
	Model     string    `json:"model,omitempty"`
	Status    int       `json:"status"`          // 0: the connection was cut
	Rule      string    `json:"rule,omitempty"`  // the check that refused it
	Fault     string    `json:"fault,omitempty"` // the fault that struck it
}

// maxCalls bounds the log; the oldest go first.
const maxCalls = 1000

type callLog struct {
	mu    sync.Mutex
	seq   int
	calls []Call
}

func (l *callLog) add(call Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	call.Seq = l.seq
	if len(l.calls) == maxCalls {
		copy(l.calls, l.calls[1:])
		l.calls = l.calls[:maxCalls-1]
	}
	l.calls = append(l.calls, call)
}

func (l *callLog) list() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Call{}, l.calls...)
}

func (l *callLog) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq, l.calls = 0, nil
}

// serveAdmin lets a test program steer the simulator from outside.
func (s *Server) serveAdmin(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "GET /simulator/faults":
		writeJSON(w, http.StatusOK, map[string]any{"faults": s.faults.list()})
	case "POST /simulator/faults":
		s.adminAddFaults(w, r)
	case "DELETE /simulator/faults":
		s.faults.clear()
		writeJSON(w, http.StatusOK, map[string]any{"faults": s.faults.list()})
	case "GET /simulator/calls":
		writeJSON(w, http.StatusOK, map[string]any{"calls": s.calls.list()})
	case "POST /simulator/clock":
		s.adminClock(w, r)
	case "POST /simulator/reset":
		if err := s.Reset(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		writeJSON(w, http.StatusOK, map[string]any{"now": s.now()})
	default:
		http.Error(w, "the simulator has GET|POST|DELETE /simulator/faults, GET /simulator/calls, POST /simulator/clock and POST /simulator/reset", http.StatusNotFound)
	}
}

const maxAdminBody = 1 << 20

// adminAddFaults takes {"faults": […]}, as in a script, or one fault alone.
func (s *Server) adminAddFaults(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdminBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var list struct {
		Faults []Fault `yaml:"faults"`
	}
	if errList := decodeStrict(bytes.NewReader(body), &list); errList != nil || len(list.Faults) == 0 {
		var one Fault
		if err := decodeStrict(bytes.NewReader(body), &one); err != nil {
			if bytes.Contains(body, []byte("faults")) && errList != nil {
				err = errList
			}
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		list.Faults = []Fault{one}
	}
	if err := s.AddFaults(list.Faults...); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"faults": s.faults.list()})
}

func (s *Server) adminClock(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Advance Duration `yaml:"advance"`
	}
	if err := decodeStrict(http.MaxBytesReader(w, r.Body, maxAdminBody), &body); err != nil || body.Advance <= 0 {
		http.Error(w, `want {"advance": "1h"}`, http.StatusBadRequest)
		return
	}
	s.Advance(time.Duration(body.Advance))
	writeJSON(w, http.StatusOK, map[string]any{"now": s.now()})
}

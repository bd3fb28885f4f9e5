package simulator

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Call is one request in the call log, which has neither tokens nor bodies.
type Call struct {
	Seq       int       `json:"seq"`
	Time      time.Time `json:"time"`
	Method    string    `json:"method"`
	Path      string    `json:"path"`
	Host      string    `json:"host"`
	UserAgent string    `json:"user_agent,omitempty"`
	Account   string    `json:"account,omitempty"` // the email, or the name of the API key
	Model     string    `json:"model,omitempty"`
	Status    int       `json:"status"`          // 0 if the connection was cut
	Rule      string    `json:"rule,omitempty"`  // the check that refused it
	Fault     string    `json:"fault,omitempty"` // the fault that struck it
	// Loaded is the context with which the call loaded its model at Ollama, and Ignored has the
	// members and options that Ollama passed over.
	Loaded  int      `json:"loaded,omitempty"`
	Ignored []string `json:"ignored,omitempty"`

	secret string // the API key that came with it, for faults to match; the log does not keep it
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

const adminPath = "/simulator/"

// An adminRoute is one way to steer the simulator from outside.
type adminRoute struct {
	method, path string
	about        string
	serve        func(s *Server, w http.ResponseWriter, r *http.Request)
}

// adminRoutes returns all admin routes. It is a function because one of them lists them.
func adminRoutes() []adminRoute {
	return []adminRoute{
		{"GET", "/simulator/faults", "the active faults, and how often each matched and occurred", (*Server).adminFaults},
		{"POST", "/simulator/faults", `add one fault, or several as {"faults": […]}`, (*Server).adminAddFaults},
		{"DELETE", "/simulator/faults", "remove all faults", (*Server).adminClearFaults},
		{"GET", "/simulator/calls", "recent calls, and the rule or fault that rejected each", (*Server).adminCalls},
		{"GET", credentialsPath, "a credentials file for Vertex AI; ?type= is service_account (default), authorized_user, impersonated_service_account or external_account", (*Server).adminCredentials},
		{"GET", subjectPath, "the token that a file of the type external_account exchanges; ?file=PATH of the line above has it read from a file", (*Server).adminSubjectToken},
		{"DELETE", "/simulator/tokens", "let all access tokens expire", (*Server).adminRevoke},
		{"POST", "/simulator/clock", `move the clock: {"advance": "1h"}`, (*Server).adminClock},
		{"POST", "/simulator/reset", "reset tokens, quota, caches, calls and clock; restore the faults of the script", (*Server).adminReset},
	}
}

// serveAdmin lets a test program steer the simulator from outside.
func (s *Server) serveAdmin(w http.ResponseWriter, r *http.Request) {
	var known []string
	for _, route := range adminRoutes() {
		if route.method == r.Method && route.path == r.URL.Path {
			route.serve(s, w, r)
			return
		}
		known = append(known, route.method+" "+route.path)
	}
	http.Error(w, "the simulator has "+strings.Join(known, ", "), http.StatusNotFound)
}

func (s *Server) adminFaults(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"faults": s.faults.list()})
}

func (s *Server) adminClearFaults(w http.ResponseWriter, r *http.Request) {
	s.faults.clear()
	s.adminFaults(w, r)
}

func (s *Server) adminCalls(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"calls": s.calls.list()})
}

func (s *Server) adminReset(w http.ResponseWriter, _ *http.Request) {
	if err := s.Reset(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"now": s.now()})
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
	s.adminFaults(w, r)
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

package perigeetest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A provider is a real HTTP server that answers by script and remembers what it was asked.
type provider struct {
	server  *httptest.Server
	closing chan struct{}
	pauses  chan chan struct{} // a pausing provider sends a channel; the runner closes it to resume

	mu     sync.Mutex
	script []*exchange
	extra  []string // requests that the script does not know
}

// An exchange is one request to the provider and its answer.
type exchange struct {
	line string // the request line that it is for; empty means the next that comes
	head head
	body []piece
	used bool
	got  string // the request as received
}

// newProvider starts a provider that answers from the script.
func newProvider(script []*exchange) *provider {
	p := &provider{closing: make(chan struct{}), pauses: make(chan chan struct{}), script: script}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	return p
}

// close ends all that is under way.
func (p *provider) close() {
	close(p.closing)
	p.server.CloseClientConnections()
	p.server.Close()
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	text := requestText(r, body)
	x := p.next(requestLine(r), text)
	if x == nil {
		http.Error(w, "the transcript has no answer to this request", http.StatusNotImplemented)
		return
	}
	x.play(w, r, p)
}

// next finds the answer to a request: the one that is for its request line, else the next unused
// one.
func (p *provider) next(line, text string) *exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.script, func(x *exchange) bool { return !x.used && x.line == line })
	if i < 0 {
		i = slices.IndexFunc(p.script, func(x *exchange) bool { return !x.used })
	}
	if i < 0 {
		p.extra = append(p.extra, text)
		return nil
	}
	x := p.script[i]
	x.used, x.got = true, text
	return x
}

// requests returns what was asked, one text for each answer of the script ("" where there was no
// request), and what was asked beyond the script.
func (p *provider) requests() (asked, extra []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.script {
		asked = append(asked, x.got)
	}
	return asked, slices.Clone(p.extra)
}

// play writes the answer, stage directions and all.
func (x *exchange) play(w http.ResponseWriter, r *http.Request, p *provider) {
	if x.head.line == "" { // there is not even a head
		p.act(x.body[0].action, r)
		return
	}
	h := w.Header()
	for _, f := range x.head.fields {
		h.Add(f.name, f.value)
	}
	if h.Get("Content-Type") == "" {
		h["Content-Type"] = nil // no guessing
	}
	w.WriteHeader(statusOf(x.head.line))
	control := http.NewResponseController(w)
	for _, b := range x.body {
		if b.action == "" {
			_, _ = w.Write(b.data) // a closed connection is noticed elsewhere
			continue
		}
		_ = control.Flush()
		p.act(b.action, r)
	}
}

// act follows a stage direction.
func (p *provider) act(action string, r *http.Request) {
	switch action {
	case actionPause:
		p.pause(r)
	case actionHang:
		select {
		case <-r.Context().Done():
		case <-p.closing:
		}
		panic(http.ErrAbortHandler)
	case actionReset:
		panic(http.ErrAbortHandler)
	}
}

// pause waits until the runner resumes the provider.
func (p *provider) pause(r *http.Request) {
	release := make(chan struct{})
	select {
	case p.pauses <- release:
		select {
		case <-release:
		case <-p.closing:
		}
	case <-r.Context().Done():
	case <-p.closing:
	}
}

// statusOf reads the status out of a status line, with or without the version before it; 0 means
// there is none.
func statusOf(line string) int {
	for word := range strings.FieldsSeq(line) {
		if code, err := strconv.Atoi(word); err == nil && code >= 100 && code <= 999 {
			return code
		}
	}
	return 0
}

func requestLine(r *http.Request) string { return r.Method + " " + r.RequestURI }

// requestText writes a request as a part of a transcript. All headers are shown, in order of name,
// because what must not be there matters as much as what must.
func requestText(r *http.Request, body []byte) string {
	h := head{line: requestLine(r)}
	for _, name := range slices.Sorted(headerNames(r.Header)) {
		for _, value := range r.Header[name] {
			h.add(name, value)
		}
	}
	text := h.String()
	if len(body) == 0 {
		return strings.TrimSuffix(text, "\n")
	}
	return text + visible(body) + "\n"
}

// headerNames yields the names of the headers that are part of the message.
func headerNames(h http.Header) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for name := range h {
			if name != "Content-Length" && name != "Connection" && name != "Date" && !yield(name) {
				return
			}
		}
	}
}

// parseExchange reads an answer and, when there is one, the request that it is for.
func parseExchange(request, response string) (*exchange, error) {
	x := &exchange{}
	if request != "" {
		h, _, err := parseMessage(request)
		if err != nil {
			return nil, err
		}
		x.line = h.line
	}
	if action, _, ok := cutDirection(response); ok {
		x.body = []piece{{action: action}} // before a head: there is none
		return x, nil
	}
	h, body, err := parseMessage(response)
	if err != nil {
		return nil, err
	}
	x.head = h
	if x.body, err = plain(body); err != nil {
		return nil, err
	}
	if statusOf(h.line) == 0 {
		return nil, fmt.Errorf("%q is not a status line", h.line)
	}
	return x, nil
}

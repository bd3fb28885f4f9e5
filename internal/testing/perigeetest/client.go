package perigeetest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Nothing in a test waits longer than patience. quiet is how long a client is watched before it
// counts as having got all that there is, where the transcript does not contain it.
const (
	patience = time.Minute
	quiet    = 150 * time.Millisecond
)

// shown are the response headers that transcripts show, besides all that start with X-Perigee- and
// those that would open perigee to web pages.
var shown = []string{"Content-Type", "Allow", "Location", "Retry-After", "Www-Authenticate", "X-Should-Retry"}

func isShown(name string) bool {
	return slices.Contains(shown, name) || strings.HasPrefix(name, "X-Perigee-") || strings.HasPrefix(name, "Access-Control-")
}

// A client sends the request of a transcript and writes down what comes back.
type client struct {
	addr   string
	pauses <-chan chan struct{}
	want   string // the response that the transcript expects; empty means none yet

	text string // what has come back: complete up to here
	tail []byte // and these bytes of the body
	body bool   // there is a body
	id   string // from X-Perigee-Call
}

// An arrival is something that came back.
type arrival struct {
	head *http.Response
	data []byte
	end  error // io.EOF: properly
}

// do sends the request and returns when the response is over.
func (c *client) do(request string) error {
	method, raw, err := c.wireForm(request)
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	arrivals := make(chan arrival)
	stop := make(chan struct{})
	defer close(stop)
	go receive(conn, method, arrivals, stop)
	// A server may answer and hang up before it has read everything; the response shows that.
	go func() { _, _ = conn.Write(raw) }()
	for {
		select {
		case a := <-arrivals:
			if c.take(a) {
				return nil
			}
		case release := <-c.pauses:
			over := c.catchUp(arrivals)
			c.text = direct(c.text+visible(c.tail), actionPause)
			c.tail = nil
			close(release)
			if over {
				return nil
			}
		}
	}
}

// catchUp receives until the client has what the transcript expects before the next pause, or
// nothing comes any more. It reports whether the response is over.
//
// Real time: what does not come is not announced.
func (c *client) catchUp(arrivals <-chan arrival) (over bool) {
	timer := time.NewTimer(c.wait())
	defer timer.Stop()
	for !c.asExpected() {
		select {
		case a := <-arrivals:
			if c.take(a) {
				return true
			}
			timer.Reset(c.wait())
		case <-timer.C:
			return false
		}
	}
	return false
}

// wait is how long the next piece may take. What has come is the beginning of what is expected:
// then the rest will come, however busy the machine is.
func (c *client) wait() time.Duration {
	if got := c.text + visible(c.tail); c.want != "" && strings.HasPrefix(c.want, got) {
		return patience / 2
	}
	return quiet
}

// asExpected reports whether the bytes received are those before the next pause in the expected
// response.
func (c *client) asExpected() bool {
	got := c.text + visible(c.tail)
	return c.want != "" && strings.HasPrefix(c.want, direct(got, actionPause))
}

// take writes an arrival down. It reports whether the response is over.
func (c *client) take(a arrival) (over bool) {
	switch {
	case a.head != nil:
		h := head{line: fmt.Sprintf("%d %s", a.head.StatusCode, http.StatusText(a.head.StatusCode))}
		for _, name := range slices.Sorted(headerNames(a.head.Header)) {
			if isShown(name) {
				h.add(name, strings.Join(a.head.Header[name], ", "))
			}
		}
		c.text += h.String()
		c.id = a.head.Header.Get("X-Perigee-Call")
	case a.end != nil:
		c.finish(a.end)
		return true
	default:
		c.tail = append(c.tail, a.data...)
		c.body = true
	}
	return false
}

// finish ends the text with the newline that is the file's. A head without a body needs no blank
// line.
func (c *client) finish(end error) {
	c.text += visible(c.tail)
	c.tail = nil
	switch {
	case end != io.EOF:
		c.text = direct(c.text, actionReset)
	case !c.body:
		c.text = strings.TrimSuffix(c.text, "\n")
		return
	}
	if end == io.EOF || !strings.HasSuffix(c.text, "\n") {
		c.text += "\n"
	}
}

// receive reads a response and hands over what comes, as it comes.
func receive(conn net.Conn, method string, arrivals chan<- arrival, stop <-chan struct{}) {
	send := func(a arrival) bool {
		select {
		case arrivals <- a:
			return true
		case <-stop:
			return false
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		send(arrival{end: io.ErrUnexpectedEOF})
		return
	}
	if !send(arrival{head: resp}) {
		return
	}
	defer func() { _ = resp.Body.Close() }()
	for {
		buf := make([]byte, 32<<10)
		n, err := resp.Body.Read(buf)
		if n > 0 && !send(arrival{data: buf[:n]}) {
			return
		}
		if err != nil {
			send(arrival{end: err})
			return
		}
	}
}

// wireForm turns the text of a request into the bytes to send.
func (c *client) wireForm(request string) (method string, raw []byte, err error) {
	h, text, err := parseMessage(request)
	if err != nil {
		return "", nil, err
	}
	pieces, err := plain(text)
	if err != nil {
		return "", nil, err
	}
	var body []byte
	for i, p := range pieces {
		switch {
		case p.action == actionGzip && i == 1:
			body = compressed(pieces[2].data)
		case p.action != "" && i > 1 || p.action != "" && p.action != actionGzip:
			return "", nil, fmt.Errorf("!%s makes no sense in a request", p.action)
		case len(pieces) == 1:
			body = p.data
		}
	}
	method, _, _ = strings.Cut(h.line, " ")
	var b bytes.Buffer
	b.WriteString(h.line + " HTTP/1.1\r\n")
	if h.get("Host") == "" {
		h.add("Host", c.addr)
	}
	if len(body) > 0 && h.get("Content-Length") == "" && h.get("Transfer-Encoding") == "" {
		h.add("Content-Length", strconv.Itoa(len(body)))
	}
	for _, f := range h.fields {
		b.WriteString(f.name + ": " + f.value + "\r\n")
	}
	b.WriteString("\r\n")
	b.Write(body)
	return method, b.Bytes(), nil
}

func compressed(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data) // into memory
	_ = z.Close()
	return b.Bytes()
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// callLimit is how long a call may take. All time-outs of the configuration together are far
// shorter.
const callLimit = 60 * time.Second

// A client asks one perigee.
type client struct {
	url  string
	http *http.Client
}

func newClient(url string) *client {
	return &client{url, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}}}
}

// ask makes a call and fills in its answer.
func (c *client) ask(ctx context.Context, q *call) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	q.began = time.Now()
	defer func() { q.over = time.Now() }()
	a := &q.answer
	if q.socket {
		c.askSocket(ctx, q)
	} else if resp, err := c.send(ctx, q.key, http.MethodPost, q.dialect.path(q), q.dialect.body(q)); err != nil {
		a.err = err
	} else {
		c.read(resp, q, cancel)
	}
	if q.background && a.response != "" && a.failure == "" {
		c.poll(ctx, q)
	}
	if a.status == finishSeen {
		a.status = http.StatusOK
	}
}

func (c *client) send(ctx context.Context, key clientKey, method, path string, body object) (*http.Response, error) {
	var encoded []byte
	if body != nil {
		encoded, _ = json.Marshal(body) // strings and numbers
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key.secret != "" {
		req.Header.Set("Authorization", "Bearer "+key.secret)
	}
	return c.http.Do(req)
}

// read reads an answer to its end, or leaves after the first bytes.
func (c *client) read(resp *http.Response, q *call, leave context.CancelFunc) {
	defer resp.Body.Close()
	a := &q.answer
	a.status, a.class = resp.StatusCode, resp.Header.Get("X-Perigee-Class")
	a.upstream, a.id = resp.Header.Get("X-Perigee-Upstream"), resp.Header.Get("X-Perigee-Call")
	body := io.Reader(resp.Body)
	if q.slow {
		body = slowReader{body}
	}
	if resp.StatusCode != http.StatusOK || !q.stream {
		data, err := io.ReadAll(body)
		a.err, a.said = err, string(data[:min(len(data), 300)])
		switch {
		case err != nil:
		case resp.StatusCode != http.StatusOK:
			a.failure = q.dialect.failure(data)
		default:
			q.dialect.whole(data, a)
		}
		return
	}
	lines := bufio.NewReaderSize(body, 64<<10)
	for {
		line, err := lines.ReadString('\n')
		if data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data: "); ok {
			q.dialect.event([]byte(data), a)
			if q.leaves && a.text != "" {
				leave()
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				a.err = err
				a.ended = false
			}
			return
		}
	}
}

// A slowReader reads little at a time.
type slowReader struct{ io.Reader }

func (r slowReader) Read(b []byte) (int, error) {
	time.Sleep(2 * time.Millisecond)
	return r.Reader.Read(b[:min(len(b), 512)])
}

// poll waits for a response in the background.
func (c *client) poll(ctx context.Context, q *call) {
	a := &q.answer
	for {
		wait(ctx, 150*time.Millisecond)
		status, r, err := c.fetch(ctx, q.key, a.response)
		switch {
		case ctx.Err() != nil:
			a.err = ctx.Err()
			return
		case err != nil || status >= 500: // not up, or the store cannot be read now
		case status != http.StatusOK:
			a.err = errors.New("a response in the background was accepted, and is not there any more")
			return
		case r.Status == "completed":
			r.Store = true
			a.finish(r)
			return
		case r.Status != "queued" && r.Status != "in_progress":
			a.failure = "the response is " + r.Status
			return
		}
	}
}

// fetch reads a stored response.
func (c *client) fetch(ctx context.Context, key clientKey, id string) (status int, r *response, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	resp, err := c.send(ctx, key, http.MethodGet, "/v1/responses/"+id, nil)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	r = new(response)
	err = json.NewDecoder(resp.Body).Decode(r)
	return resp.StatusCode, r, err
}

// askSocket makes a call of the Responses API over a WebSocket of its own.
func (c *client) askSocket(ctx context.Context, q *call) {
	a := &q.answer
	opts := &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: http.Header{}}
	if q.key.secret != "" {
		opts.HTTPHeader.Set("Authorization", "Bearer "+q.key.secret)
	}
	conn, resp, err := websocket.Dial(ctx, c.url+"/v1/responses", opts)
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			data, _ := io.ReadAll(resp.Body)
			a.status, a.class = resp.StatusCode, resp.Header.Get("X-Perigee-Class")
			a.failure, a.said = q.dialect.failure(data), string(data)
			return
		}
		a.err = err
		return
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	a.status = http.StatusOK
	body := q.dialect.body(q)
	body["type"] = "response.create"
	delete(body, "stream")
	encoded, _ := json.Marshal(body) // strings and numbers
	if a.err = conn.Write(ctx, websocket.MessageText, encoded); a.err != nil {
		return
	}
	for !a.ended && a.failure == "" {
		_, data, err := conn.Read(ctx)
		if closed, ok := errors.AsType[websocket.CloseError](err); ok && closed.Reason != "" {
			a.failure = closed.Reason // a socket that is closed for a reason is told it
			return
		}
		if err != nil {
			a.err = err
			return
		}
		q.dialect.event(data, a)
		if q.leaves && a.text != "" {
			return
		}
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
}

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

// quiet is for servers that are meant to break.
var quiet = log.New(io.Discard, "", 0)

const (
	lieTwice = "says everything twice"
	lieEmpty = "empty"
)

// A lie is one way in which the provider answers. The first two are honest, and the percentages add
// up to less than 100: the rest is honest, too.
type lie struct {
	name    string
	percent int
	tell    func(*reply)
}

var lies = []lie{
	{"honest", 30, func(r *reply) { r.events(0, r.attempt.of, 0); r.complete() }},
	{"slow", 8, func(r *reply) { r.events(0, r.attempt.of, 150*time.Millisecond); r.complete() }},
	{"resets before an answer", 3, func(r *reply) { r.reset() }},
	{"resets in the middle", 3, func(r *reply) { r.events(0, r.half(), 0); r.reset() }},
	{"ends in the middle", 3, func(r *reply) { r.events(0, r.half(), 0); r.truncate() }},
	{"aborts in the middle", 3, func(r *reply) { r.events(0, r.half(), 0); panic(http.ErrAbortHandler) }},
	{"stalls before an answer", 1, func(r *reply) { r.stall() }},
	{"stalls in the middle", 1, func(r *reply) { r.events(0, r.half(), 0); r.stall() }},
	{"says bad JSON", 3, func(r *reply) { r.badJSON() }},
	{"announces too many bytes", 2, func(r *reply) { r.length(len(r.all())+100, r.all()) }},
	{"announces too few bytes", 2, func(r *reply) { r.length(len(r.all())/2, r.all()) }},
	{"truncates gzip", 2, func(r *reply) { r.gzip() }},
	{lieTwice, 2, func(r *reply) { r.events(0, r.attempt.of, 0); r.events(0, r.attempt.of, 0) }},
	{lieEmpty + ": no body", 2, func(r *reply) { r.head(); r.w.WriteHeader(http.StatusOK) }},
	{lieEmpty + ": an end without text", 2, func(r *reply) { r.nothing() }},
	{"answers with a page", 1, func(r *reply) { r.page() }},
	{"429 for a second", 2, func(r *reply) { r.refuse(http.StatusTooManyRequests, "1s") }},
	{"503", 3, func(r *reply) { r.refuse(http.StatusServiceUnavailable, "") }},
	{"500", 2, func(r *reply) { r.refuse(http.StatusInternalServerError, "") }},
}

// A reply is one answer on its way.
type reply struct {
	provider *provider
	w        http.ResponseWriter
	r        *http.Request
	flush    *http.ResponseController
	tag      string
	attempt  *attempt
	call     bool // ends with a function call
	gateway  bool // wrapped as the Antigravity gateway does
	random   *rand.Rand
	begun    bool
}

type object = map[string]any

func (r *reply) half() int { return r.attempt.of / 2 }

// text is one chunk. Every tenth is long.
func (r *reply) text(i int) string {
	words := 3
	if (i+len(r.tag))%10 == 9 {
		words = 2000
	}
	return mark(r.tag, r.attempt.number, i, r.attempt.of) + filler(r.tag, words)
}

// part is one chunk as a part of a message; the last one may be a function call.
func (r *reply) part(i int) object {
	if r.call && i == r.attempt.of-1 {
		return object{"functionCall": object{"name": "look", "args": object{"at": mark(r.tag, r.attempt.number, i, r.attempt.of)}}}
	}
	return object{"text": r.text(i)}
}

// message encodes parts, with the reason for the end if they are the last.
func (r *reply) message(last bool, parts ...object) []byte {
	candidate := object{"content": object{"role": "model", "parts": append([]object{}, parts...)}, "index": 0}
	if last {
		candidate["finishReason"] = "STOP"
	}
	m := object{
		"candidates": []object{candidate}, "modelVersion": "chaos", "responseId": fmt.Sprint(r.tag, "-", r.attempt.number),
		"usageMetadata": object{
			"promptTokenCount": promptTokens, "candidatesTokenCount": r.attempt.of, "totalTokenCount": promptTokens + r.attempt.of,
		},
	}
	if r.gateway {
		m = object{"response": m, "traceId": r.tag}
	}
	encoded, _ := json.Marshal(m) // strings and numbers
	return encoded
}

const promptTokens = 7

// events writes the chunks from one number up to another. An answer in one piece is written with
// its last chunk.
func (r *reply) events(from, to int, pause time.Duration) {
	if !r.attempt.stream {
		if all := r.all(); to == r.attempt.of {
			r.write(all)
		} else if to > 0 {
			r.write(all[:len(all)*to/r.attempt.of])
		}
		return
	}
	for i := from; i < to; i++ {
		r.write(r.event(i))
		wait(r.r.Context(), pause)
	}
}

func (r *reply) event(i int) []byte {
	return fmt.Appendf(nil, "data: %s\r\n\r\n", r.message(i == r.attempt.of-1, r.part(i)))
}

// all is the whole body of a right answer.
func (r *reply) all() []byte {
	var b bytes.Buffer
	var parts []object
	for i := range r.attempt.of {
		b.Write(r.event(i))
		parts = append(parts, r.part(i))
	}
	if r.attempt.stream {
		return b.Bytes()
	}
	return r.message(true, parts...)
}

// head begins an answer with status 200.
func (r *reply) head() {
	r.provider.answer(r.r.Context(), r.attempt)
	kind := "application/json"
	if r.attempt.stream {
		kind = "text/event-stream"
	}
	r.w.Header().Set("Content-Type", kind)
}

func (r *reply) write(b []byte) {
	if !r.begun {
		r.head()
		r.begun = true
	}
	_, _ = r.w.Write(b)
	_ = r.flush.Flush()
}

func (r *reply) complete() { r.attempt.completely = true }

// reset breaks the connection with a TCP reset, or the stream of HTTP/2.
func (r *reply) reset() {
	conn, _, err := r.flush.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	hole, _ := conn.(*holeConn)
	if tcp, ok := hole.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// truncate ends an answer that is not complete in good order, as far as HTTP goes.
func (r *reply) truncate() {
	if r.half() == 0 {
		r.head()
	}
}

// stall says nothing more until perigee leaves.
func (r *reply) stall() { wait(r.r.Context(), 30*time.Second) }

// length sends a body under a length that is not its own.
func (r *reply) length(n int, body []byte) {
	r.head()
	r.w.Header().Set("Content-Length", strconv.Itoa(n))
	_, _ = r.w.Write(body[:min(n, len(body))])
}

func (r *reply) badJSON() {
	r.events(0, r.half(), 0)
	r.write([]byte("data: {\"candidates\":[{\"cont\r\n\r\n"))
	r.events(r.half(), r.attempt.of, 0)
}

func (r *reply) gzip() {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(r.all())
	_ = z.Close()
	r.head()
	r.w.Header().Set("Content-Encoding", "gzip")
	_, _ = r.w.Write(b.Bytes()[:b.Len()/2])
}

func (r *reply) nothing() {
	m := r.message(true)
	if r.attempt.stream {
		m = fmt.Appendf(nil, "data: %s\r\n\r\n", m)
	}
	r.write(m)
}

func (r *reply) page() {
	r.w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(r.w, "<html><body>Sign in to the network</body></html>")
}

func (r *reply) refuse(status int, delay string) {
	e := object{"code": status, "message": "chaos", "status": "UNAVAILABLE"}
	switch status {
	case http.StatusTooManyRequests:
		e["status"] = "RESOURCE_EXHAUSTED"
		e["details"] = []object{{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}}
	case http.StatusInternalServerError:
		e["status"] = "INTERNAL"
	}
	r.w.Header().Set("Content-Type", "application/json")
	r.w.WriteHeader(status)
	_ = json.NewEncoder(r.w).Encode(object{"error": e})
}

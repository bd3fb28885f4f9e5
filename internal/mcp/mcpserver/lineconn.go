package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxLine is the maximum number of bytes in a line.
	maxLine = 64 << 20
	// graceEOF is how long calls may continue after the end of the input, so that the answers of
	// `printf … | perigee mcp` are written.
	graceEOF = 500 * time.Millisecond
	// graceCancelled is how long cancelled calls may take to end.
	graceCancelled = 3 * time.Second
)

// A lineConn is the connection of a client. It is an mcp.Transport, for one session.
type lineConn struct {
	onEOF func()

	lines  <-chan line
	closed chan struct{} // no more reads and writes
	once   sync.Once

	writing sync.Mutex
	out     io.Writer

	mu    sync.Mutex
	queue []jsonrpc.Message // of a batch
	open  map[jsonrpc.ID]*incoming
	// closed when open becomes empty after the end of the input; nil if nothing waits for it
	idle    chan struct{}
	version string // version of the protocol that initialize has negotiated
}

// An incoming is a request that was not answered yet.
type incoming struct {
	cancelled  bool // by the client: it gets no answer
	initialize bool
	batch      *batch // nil if there is none
}

// A batch is a line with several messages. Its answers are written together.
type batch struct {
	waiting int
	answers []json.RawMessage
}

type line struct {
	data []byte
	err  error // io.EOF, errTooLong, or the error of reading
}

var errTooLong = fmt.Errorf("the message is longer than %d bytes", maxLine)

// newLineConn starts reading in. The goroutine ends at the end of in, or at the next line after
// the connection is closed. onEOF is called when the input has ended and calls are still open
// after a moment; it has to cancel them.
func newLineConn(in io.Reader, out io.Writer, onEOF func()) *lineConn {
	lines := make(chan line)
	c := &lineConn{onEOF: onEOF, lines: lines, closed: make(chan struct{}), out: out, open: map[jsonrpc.ID]*incoming{}}
	go func() {
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			data, err := readLine(r, maxLine)
			select {
			case lines <- line{data, err}:
			case <-c.closed:
				return
			}
			if err != nil && err != errTooLong {
				return
			}
		}
	}()
	return c
}

// readLine returns the next line. A line that is longer than limit is read to its end, and
// errTooLong is returned. The last line need not end in a newline.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var data []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if tooLong = tooLong || len(data)+len(part) > limit+1; tooLong {
			data = nil
		} else {
			data = append(data, part...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case tooLong && (err == nil || err == io.EOF):
			return nil, errTooLong
		case err == io.EOF && len(bytes.TrimSpace(data)) > 0:
			return data, nil
		}
		return data, err
	}
}

// Connect implements mcp.Transport.
func (c *lineConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements mcp.Connection.
func (c *lineConn) SessionID() string { return "" }

// Close implements mcp.Connection.
func (c *lineConn) Close() error {
	c.Abort()
	return nil
}

// Abort ends reading and writing at once.
func (c *lineConn) Abort() { c.once.Do(func() { close(c.closed) }) }

// Read implements mcp.Connection. It returns io.EOF when the input has ended and open requests were
// answered or cancelled.
func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		c.mu.Lock()
		if len(c.queue) > 0 {
			m := c.queue[0]
			c.queue = c.queue[1:]
			c.mu.Unlock()
			return m, nil
		}
		c.mu.Unlock()

		var l line
		select {
		case l = <-c.lines:
		case <-c.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch {
		case l.err == errTooLong:
			c.refuse(jsonrpc.CodeInvalidRequest, l.err.Error())
		case l.err != nil:
			c.drain()
			return nil, l.err
		default:
			c.accept(bytes.TrimSpace(l.data))
		}
	}
}

// drain waits for open requests at the end of the input, and cancels the ones that take longer.
func (c *lineConn) drain() {
	c.mu.Lock()
	if len(c.open) == 0 {
		c.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	c.idle = idle
	c.mu.Unlock()
	for _, wait := range []time.Duration{graceEOF, graceCancelled} {
		timer := time.NewTimer(wait)
		select {
		case <-idle:
			timer.Stop()
			return
		case <-c.closed:
			timer.Stop()
			return
		case <-timer.C:
			c.onEOF()
		}
	}
}

// accept queues the messages of a line, or answers with an error.
func (c *lineConn) accept(data []byte) {
	if len(data) == 0 {
		return
	}
	if refused := checkMessage(data); refused != nil {
		c.refuse(refused.Code, refused.Message)
		return
	}
	if data[0] == '[' {
		c.acceptBatch(data)
		return
	}
	m, err := decodeMessage(data)
	if err != nil {
		c.refuse(jsonrpc.CodeInvalidRequest, "the line is no JSON-RPC message: "+err.Error())
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enqueue(m, nil)
}

// maxID is the largest number that the SDK repeats exactly.
const maxID int64 = 1 << 53

// decodeMessage reads a message. It refuses IDs that the SDK cannot represent and would change.
func decodeMessage(data []byte) (jsonrpc.Message, error) {
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(data, &m) == nil && len(m.ID) > 0 && (m.ID[0] == '-' || m.ID[0] >= '0' && m.ID[0] <= '9') {
		if n, err := strconv.ParseInt(string(m.ID), 10, 64); err != nil || n > maxID || n < -maxID {
			return nil, fmt.Errorf("the id %.30s is not an integer of at most %d; use a smaller one, or a string", m.ID, maxID)
		}
	}
	return jsonrpc.DecodeMessage(data)
}

func (c *lineConn) acceptBatch(data []byte) {
	c.mu.Lock()
	version := c.version
	c.mu.Unlock()
	if version >= "2025-06-18" {
		c.refuse(jsonrpc.CodeInvalidRequest, "batches are not part of version "+version+" of the protocol")
		return
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil || len(parts) == 0 {
		c.refuse(jsonrpc.CodeInvalidRequest, "the batch is empty")
		return
	}
	b := &batch{}
	var messages []jsonrpc.Message
	for _, part := range parts {
		m, err := decodeMessage(part)
		if err != nil {
			c.refuse(jsonrpc.CodeInvalidRequest, "the batch has an element that is no JSON-RPC message: "+err.Error())
			return
		}
		messages = append(messages, m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range messages {
		c.enqueue(m, b)
	}
}

// enqueue queues a message. The mutex must be locked.
func (c *lineConn) enqueue(m jsonrpc.Message, b *batch) {
	if r, ok := m.(*jsonrpc.Request); ok {
		switch {
		case r.Method == "notifications/cancelled":
			c.markCancelled(r)
		case r.IsCall() && c.open[r.ID] != nil:
			// The SDK drops a request with an ID that is in use without an answer.
			c.refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("the id %v is in use by a request that was not answered yet", r.ID.Raw()))
			return
		case r.IsCall() && r.Method != "subscriptions/listen": // answered only when it is cancelled
			c.open[r.ID] = &incoming{initialize: r.Method == "initialize", batch: b}
			if b != nil {
				b.waiting++
			}
		}
	}
	c.queue = append(c.queue, m)
}

func (c *lineConn) markCancelled(r *jsonrpc.Request) {
	var params struct {
		RequestID any `json:"requestId"`
	}
	if json.Unmarshal(r.Params, &params) != nil {
		return
	}
	if id, err := jsonrpc.MakeID(params.RequestID); err == nil && c.open[id] != nil && !c.open[id].initialize {
		c.open[id].cancelled = true
	}
}

// refuse writes an error that has no ID.
func (c *lineConn) refuse(code int64, message string) {
	data, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": message}})
	_ = c.writeLine(data)
}

// Write implements mcp.Connection.
func (c *lineConn) Write(_ context.Context, m jsonrpc.Message) error {
	select {
	case <-c.closed:
		return errors.New("the connection is closed")
	default:
	}
	r, ok := m.(*jsonrpc.Response)
	if ok && r.Error != nil {
		// The SDK refuses a request that comes before initialize without a code.
		if _, coded := errors.AsType[*jsonrpc.Error](r.Error); !coded {
			m = &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: r.Error.Error()}}
		}
	}
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	if !ok {
		return c.writeLine(data)
	}
	if data = c.answered(r, data); data == nil {
		return nil
	}
	return c.writeLine(data)
}

// answered removes the request of an answer, and returns the bytes to write, or nil if there are
// none yet, or none at all.
func (c *lineConn) answered(r *jsonrpc.Response, data []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := c.open[r.ID]
	if in == nil {
		return data
	}
	delete(c.open, r.ID)
	if len(c.open) == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
	if in.initialize && r.Error == nil {
		var result struct {
			Version string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(r.Result, &result)
		c.version = result.Version
	}
	if in.cancelled {
		data = nil
	}
	b := in.batch
	if b == nil {
		return data
	}
	if data != nil {
		b.answers = append(b.answers, data)
	}
	if b.waiting--; b.waiting > 0 || len(b.answers) == 0 {
		return nil
	}
	data, _ = json.Marshal(b.answers)
	return data
}

func (c *lineConn) writeLine(data []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.out.Write(append(data, '\n'))
	return err
}

package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/server/mount"
	"perigee/internal/server/reqbody"
	"perigee/internal/server/responsesapi"
)

// ResponseLife is how long a stored answer can be continued, as in OpenAI's API.
const ResponseLife = 30 * 24 * time.Hour

// saveTime bounds how long a client waits until its answer is stored.
const saveTime = 3 * time.Second

// responsesDialect is OpenAI's Responses API, over HTTP and over WebSockets.
var responsesDialect = dialect{
	name: perigee.DialectOpenAIResponses,
	owns: func(path string, _ http.Header) bool {
		return path == responsesPath || strings.HasPrefix(path, responsesPath+"/")
	},
	requestID:   "X-Request-Id",
	encodeError: func(_ *call, status int, err *perigee.Error) []byte { return openai.EncodeError(status, err) },
	endpoints: []endpoint{
		{path: responsesPath, operation: perigee.OperationGenerate, decode: decodeResponses},
		{path: responsesPath + "/input_tokens", operation: perigee.OperationCount, decode: decodeResponsesCount},
	},
}

const responsesPath = "/v1/responses"

func decodeResponses(c *call, origin perigee.Origin) (*exchange, error) {
	req, err := c.decodeResponse(origin, c.findResponse)
	if err != nil {
		return nil, err
	}
	return &exchange{request: req.Request, answer: func(r *perigee.Request) error {
		req.Request = r
		return c.respond(req)
	}}, nil
}

func decodeResponsesCount(c *call, origin perigee.Origin) (*exchange, error) {
	req, err := responses.DecodeCount(origin, c.findResponse)
	return &exchange{request: req, count: responses.EncodeTokenCount, estimateCount: true}, err
}

// decodeResponse decodes a body that came over HTTP or as a message.
func (c *call) decodeResponse(origin perigee.Origin, find responses.Finder) (*responses.Request, error) {
	req, err := responses.DecodeRequest(origin, find)
	if err == nil && c.opts.Responses == nil && req.Store {
		req.Store = false
		req.Note(perigee.Note{Action: perigee.NoteDropped, Subject: "store"})
	}
	return req, err
}

// respond answers POST /v1/responses.
func (c *call) respond(req *responses.Request) error {
	forwarded := req.Background && c.opts.Forwards(c.r.Context(), req.Request)
	if req.Background && !forwarded {
		if err := req.Translate(); err != nil {
			return err
		}
		switch {
		case !req.Store:
			return perigee.Errorf(perigee.ClassUnimplemented, "nothing is stored here, so nothing can be made in the background")
		case !req.Stream:
			return c.responsesBackground(req)
		}
	}
	if req.Store {
		done := req.Request.Keep() // the request is stored at the end, as a copy
		req.Elsewhere = func(start *perigee.Event) {
			c.saveElsewhere(req, start)
			done()
		}
	} else {
		req.OnRelease(req.Detach)
	}
	if req.Stream && req.Background && !forwarded {
		return c.responsesRun(req)
	}
	if req.Stream {
		into := req.NewStream(c.id, c.start, c.opts.Now)
		into.Keep = func() bool { return c.keep(req, into.Stored) }
		return c.stream(req.Request, into)
	}
	return c.whole(req.Request, c.collector(req))
}

// saveElsewhere remembers which upstream stores an answer, before its client gets the id.
func (c *call) saveElsewhere(req *responses.Request, start *perigee.Event) {
	if c.opts.Responses == nil || start.ResponseID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), saveTime)
	defer cancel()
	none := json.RawMessage("[]")
	err := c.opts.Responses.SaveResponse(ctx, &perigee.StoredResponse{
		ID: start.ResponseID, Key: c.keyName(), Created: c.start, Expires: c.start.Add(ResponseLife),
		Input: none, Output: none, Response: responses.Elsewhere(start.Upstream),
	})
	if err != nil {
		c.opts.Logger.Error("the upstream of a response could not be stored", "call", c.id, "error", err)
		req.Log.NoteOnce(notStored)
	}
}

// keyName returns the name of the key that stored answers of the client belong to.
func (c *call) keyName() string {
	if c.key == nil {
		return ""
	}
	return c.key.Name
}

// findResponse returns the stored answer of this client that a request continues.
func (c *call) findResponse(id string) (*perigee.StoredResponse, error) {
	if c.opts.Responses == nil {
		return nil, perigee.Errorf(perigee.ClassNotFound, "nothing is stored here")
	}
	if c.runs.Find(id, c.keyName()) != nil {
		return nil, perigee.Errorf(perigee.ClassInvalid, "the response %s is still being made", mount.Shorten(id)).
			WithHint("wait until GET /v1/responses/%s says that it is completed", mount.Shorten(id))
	}
	size, err := c.opts.Responses.ResponseSize(c.r.Context(), c.keyName(), id)
	if err != nil {
		return nil, err
	}
	if err := c.checkConversation(size); err != nil {
		return nil, err
	}
	before := c.recalled
	r, err := c.readStored(id, size)
	if err != nil {
		return nil, err
	}
	err = c.recall(before + int64(len(r.Input)+len(r.Output)))
	reqbody.CollectFor(c.recalled, runtime.GC) // reading it has left copies
	return r, err
}

// readStored reads a stored response of about that size, after memory for it was reserved.
func (c *call) readStored(id string, size int64) (*perigee.StoredResponse, error) {
	before := c.recalled
	if err := c.recall(before + size); err != nil {
		return nil, err
	}
	r, err := c.opts.Responses.Response(c.r.Context(), c.keyName(), id)
	if err != nil {
		return nil, err
	}
	// It may have been replaced since its size was read.
	return r, c.recall(before + int64(len(r.Response)+len(r.Input)+len(r.Output)))
}

// collector makes an answer in one piece, stored before the client gets it.
func (c *call) collector(req *responses.Request) *responses.Collector {
	into := req.NewCollector(c.id, c.start, c.opts.Now)
	into.Keep = func() bool { return c.keep(req, into.Stored) }
	return into
}

// notStored is the note of an answer that the client wanted to have stored. A stream has no place
// for it but its last event.
var notStored = perigee.Note{Action: perigee.NoteDropped, Subject: "store (the response could not be stored)"}

// keep stores an answer, and reports whether it is stored. The client gets the answer in any case.
func (c *call) keep(req *responses.Request, stored func() (response, output json.RawMessage)) bool {
	err := c.lease.Grow(storedFactor * c.content)
	if err == nil {
		defer c.lease.Shrink(storedFactor * c.content)
	}
	if err == nil || c.ongoing { // one in the background has no other way to its client
		c.keepItems(req)
		response, output := stored()
		err = c.save(req, response, output)
	}
	if err != nil {
		c.opts.Logger.Error("a response could not be stored", "call", c.id, "error", err)
		req.Log.NoteOnce(notStored)
	}
	return err == nil
}

// keepItems creates the stored items of a large request, and drops the request, so that it is not
// in memory while the database copies the items. The freed memory is returned to the system,
// because SQLite does not allocate from the runtime.
func (c *call) keepItems(req *responses.Request) {
	size := int64(cap(c.body)) + c.recalled
	if size < reqbody.Large {
		return
	}
	req.KeepItems(c.id)
	req.Release()
	c.body = nil // it stays reserved until the call ends
	reqbody.LeaveGarbage()
	reqbody.CollectFor(size, debug.FreeOSMemory)
}

func (c *call) save(req *responses.Request, response, output json.RawMessage) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), saveTime)
	defer cancel()
	return c.opts.Responses.SaveResponse(ctx, &perigee.StoredResponse{
		ID: responses.ID(c.id), Key: c.keyName(), Created: c.start, Expires: c.start.Add(ResponseLife),
		Input: req.InputItems(c.id), Output: output, Response: response,
	})
}

// responsesRun answers with a stream in the background, which can be cancelled by its name, and is
// stored however it ends.
func (c *call) responsesRun(req *responses.Request) error {
	into := req.NewStream(c.id, c.start, c.opts.Now)
	ctx, running, err := c.runs.Begin(c.r.Context(), responses.ID(c.id), c.keyName())
	if err != nil {
		return err
	}
	defer running.End()
	c.r = c.r.WithContext(ctx)
	_, begun := req.NewCollector(c.id, c.start, c.opts.Now).Waiting()
	if err := c.save(req, begun, json.RawMessage("[]")); err != nil {
		return err
	}
	kept := false
	into.Keep = func() bool {
		kept = true
		// DELETE and cancel do not wait until the client has read the rest.
		defer running.MarkStored()
		return c.keep(req, into.Stored)
	}
	err = c.stream(req.Request, into)
	if !kept { // the client disconnected, or gets only the error
		e := c.clientError(responsesapi.ErrCancelled)
		if err != nil {
			e = c.clientError(err)
		}
		into.Fail(nil, 0, e)
	}
	return err
}

// responsesBackground answers at once and continues in the background. The slots of the call are
// held until the response is complete.
func (c *call) responsesBackground(req *responses.Request) error {
	if err := c.opts.Missing(c.r.Context(), req.Model); err != nil {
		return err // later there is no client to answer
	}
	id := responses.ID(c.id)
	ctx, running, err := c.runs.Begin(context.WithoutCancel(c.r.Context()), id, c.keyName())
	if err != nil {
		return err
	}
	into := c.collector(req)
	queued, begun := into.Waiting()
	if err := c.save(req, begun, json.RawMessage("[]")); err != nil {
		running.End()
		return err
	}
	c.routed, c.ongoing = true, true
	c.note(req.Log.Notes())
	c.log = nil // the answer to this request is not the one that is recorded
	held := c.places.handOver()
	c.beginCall()
	go func() {
		defer c.endCall()
		defer running.End()
		defer held.release()
		defer c.lease.Close()
		defer req.Log.Close()
		c.finishBackground(ctx, req, into)
	}()
	c.writeJSON(http.StatusOK, queued)
	return nil
}

// finishBackground makes an answer without a client, and stores it however it ends.
func (c *call) finishBackground(ctx context.Context, req *responses.Request, into *responses.Collector) {
	defer func() {
		if v := recover(); v != nil {
			c.opts.Logger.Error("panic in a background response", "call", c.id, "panic", v, "stack", string(debug.Stack()))
			into.Fail(nil, 0, perigee.Errorf(perigee.ClassInternal, "internal error"))
		}
	}()
	for ev, err := range c.opts.Upstream.Stream(ctx, req.Request) {
		if err != nil {
			into.Fail(nil, 0, backgroundError(ctx, err))
			return
		}
		into.Add(&ev)
	}
	into.Bytes()
}

// backgroundError returns the error of an answer in the background. It prefers the cause of the
// context, which is more specific.
func backgroundError(ctx context.Context, err error) *perigee.Error {
	e := perigee.AsError(err)
	if cause, ok := errors.AsType[*perigee.Error](context.Cause(ctx)); ok && e.Class == perigee.ClassCanceled {
		return cause
	}
	return e
}

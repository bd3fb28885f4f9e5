package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/dialect/openai/responses"
)

// ResponseLife is how long an answer can be gone on from, as in the API that this follows.
const ResponseLife = 30 * 24 * time.Hour

// saveTime is how long writing an answer down may take before the client gets it all the same.
const saveTime = 3 * time.Second

// responses answers POST /v1/responses.
func (c *call) responses() error {
	body, err := c.receive()
	if err != nil {
		return err
	}
	req, err := c.openResponses(body, c.findResponse, nil)
	if err != nil {
		return err
	}
	switch {
	case req.Background && !req.Store:
		return perigee.Errorf(perigee.ClassUnimplemented, "nothing is stored here, so nothing can be made in the background")
	case req.Background && !req.Stream:
		return c.responsesBackground(req)
	}
	if req.Store {
		req.Keep() // it is stored at the end
	} else {
		req.OnRelease(req.Detach)
	}
	decodedBody(body)
	if req.Stream {
		err = c.responsesStream(req)
	} else {
		err = c.whole(c.r.Context(), req.Request, c.collector(req))
	}
	c.freeBody() // what is stored of the request is a copy
	return err
}

// openResponses decodes a body, lets it in, and brings what it points at. notes are what is known about it already.
func (c *call) openResponses(body []byte, find responses.Finder, notes []perigee.Note) (req *responses.Request, err error) {
	if req, err = responses.DecodeRequest(c.origin(body), find); err != nil {
		return nil, err
	}
	req.Late = &perigee.LateNotes{}
	req.Notes = append(append(req.Notes, notes...), queryNotes(c.r.URL)...)
	if c.opts.Responses == nil && req.Store {
		req.Store = false
		req.Notes = append(req.Notes, perigee.Note{Action: perigee.NoteDropped, Subject: "store"})
	}
	if err := req.Object(req.Notes); err != nil {
		return nil, err
	}
	if err := c.allow(req.Model); err != nil {
		return nil, err
	}
	req.Request, err = c.inline(req.Request)
	return req, err
}

// keyName is whose answers the client may see.
func (c *call) keyName() string {
	if c.key == nil {
		return ""
	}
	return c.key.Name
}

// findResponse finds an answer of this client's that it goes on from.
func (c *call) findResponse(id string) (*perigee.StoredResponse, error) {
	if c.opts.Responses == nil {
		return nil, perigee.Errorf(perigee.ClassNotFound, "nothing is stored here")
	}
	if c.behind.find(id, c.keyName()) != nil {
		return nil, perigee.Errorf(perigee.ClassInvalid, "the response %s is still being made", shorten(id)).
			WithNext("wait until GET /v1/responses/%s says that it is completed", shorten(id))
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
	collectFor(c.recalled, runtime.GC) // reading it has left copies
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
	return r, c.recall(before + int64(len(r.Response)+len(r.Input)+len(r.Output))) // it may have been replaced meanwhile
}

// collector makes an answer in one piece, stored before the client gets it.
func (c *call) collector(req *responses.Request) *responses.Collector {
	into := req.NewCollector(c.id, c.start, c.opts.Now)
	into.Keep = func() bool { return c.keep(req, into.Stored) }
	return into
}

// notStored is the note of an answer that the client wanted to have stored. A stream has no place for it but its last event.
var notStored = perigee.Note{Action: perigee.NoteDropped, Subject: "store (the response could not be stored)"}

// keep stores an answer, and says whether that went well. A store that fails does not take the answer from the client.
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
		req.Late.Add(notStored)
	}
	return err == nil
}

// keepItems makes the items of a large request that are stored, and drops the request: the database copies the items, and the request
// would be in memory beside them. What that frees is returned to the system, since SQLite does not take its memory from the runtime.
func (c *call) keepItems(req *responses.Request) {
	size := int64(cap(c.body)) + c.recalled
	if size < largeBody {
		return
	}
	collectFor(size, runtime.GC) // what encoding it for the provider has left
	req.KeepItems(c.id)
	req.Release()
	c.body = nil // it stays reserved until the call ends
	leftOver.Store(true)
	collectFor(size, debug.FreeOSMemory)
}

func (c *call) save(req *responses.Request, response, output json.RawMessage) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), saveTime)
	defer cancel()
	return c.opts.Responses.SaveResponse(ctx, &perigee.StoredResponse{
		ID: responses.ID(c.id), Key: c.keyName(), Created: c.start, Expires: c.start.Add(ResponseLife),
		Input: req.InputItems(c.id), Output: output, Response: response,
	})
}

// responsesStream answers with a stream. One in the background can be cancelled by its name, and is stored however
// it ends.
func (c *call) responsesStream(req *responses.Request) error {
	into := req.NewStream(c.id, c.start, c.opts.Now)
	c.keeps = true
	if !req.Background {
		into.Keep = func() bool { return c.keep(req, into.Stored) }
		return c.stream(req.Request, into)
	}
	ctx, running, err := c.behind.enter(c.r.Context(), responses.ID(c.id), c.keyName())
	if err != nil {
		return err
	}
	defer running.leave()
	c.r = c.r.WithContext(ctx)
	_, begun := req.NewCollector(c.id, c.start, c.opts.Now).Waiting()
	if err := c.save(req, begun, json.RawMessage("[]")); err != nil {
		return err
	}
	kept := false
	into.Keep = func() bool {
		kept = true
		defer running.settle() // who cancelled it does not wait until the client has read the rest
		return c.keep(req, into.Stored)
	}
	err = c.stream(req.Request, into)
	if !kept { // the client went away, or there was nothing to tell it but the error
		e := c.trouble(errCancelled)
		if err != nil {
			e = c.trouble(err)
		}
		into.Fail(nil, 0, e)
	}
	return err
}

// responsesBackground answers at once and goes on without the client. The places of the call are held until the response is complete.
func (c *call) responsesBackground(req *responses.Request) error {
	if err := c.opts.Missing(c.r.Context(), req.Model); err != nil {
		return err // nobody would be there to hear it later
	}
	id := responses.ID(c.id)
	ctx, running, err := c.behind.enter(context.WithoutCancel(c.r.Context()), id, c.keyName())
	if err != nil {
		return err
	}
	into := c.collector(req)
	queued, begun := into.Waiting()
	if err := c.save(req, begun, json.RawMessage("[]")); err != nil {
		running.leave()
		return err
	}
	c.asked, c.ongoing = true, true
	held := c.places.handOver()
	c.enter()
	go func() {
		defer c.leave()
		defer running.leave()
		defer held.release()
		defer c.lease.Close()
		c.finishBehind(ctx, req, into)
	}()
	c.note(req.Notes)
	c.writeJSON(http.StatusOK, queued)
	return nil
}

// finishBehind makes an answer that nobody waits for, and stores it however it ends.
func (c *call) finishBehind(ctx context.Context, req *responses.Request, into *responses.Collector) {
	defer func() {
		if v := recover(); v != nil {
			c.opts.Logger.Error("panic behind a handler", "call", c.id, "panic", v, "stack", string(debug.Stack()))
			into.Fail(nil, 0, perigee.Errorf(perigee.ClassInternal, "internal error"))
		}
	}()
	for ev, err := range c.opts.Upstream.Stream(ctx, req.Request) {
		if err != nil {
			into.Fail(nil, 0, behindTrouble(ctx, err))
			return
		}
		into.Add(&ev)
	}
	into.Bytes()
}

// behindTrouble is why an answer in the background ended: what ended its context says more than that it ended.
func behindTrouble(ctx context.Context, err error) *perigee.Error {
	e := perigee.AsError(err)
	if cause, ok := errors.AsType[*perigee.Error](context.Cause(ctx)); ok && e.Class == perigee.ClassCanceled {
		return cause
	}
	return e
}

// stored loads the answer that the path names, and what of it the path asks for.
func (c *call) stored() (r *perigee.StoredResponse, what string, err error) {
	id, what, _ := strings.Cut(c.rest, "/")
	if c.opts.Responses == nil {
		return nil, "", perigee.Errorf(perigee.ClassUnimplemented, "nothing is stored here")
	}
	running := c.behind.find(id, c.keyName()) != nil // before it is read, since it may end meanwhile
	if err := c.lease.Open(c.opts.Memory, c.trusted); err != nil {
		return nil, "", err
	}
	size, err := c.opts.Responses.ResponseSize(c.r.Context(), c.keyName(), id)
	if err != nil {
		return nil, "", err
	}
	c.recalled = 0 // what was read before is dropped
	if r, err = c.readStored(id, size); err != nil {
		return nil, "", err
	}
	if responses.StateOf(r.Response).Pending && !running {
		r.Response = responses.CutOff(r.Response)
	}
	return r, what, nil
}

// responsesRead answers GET /v1/responses/{id} and GET /v1/responses/{id}/input_items.
func (c *call) responsesRead() error {
	r, what, err := c.stored()
	if err != nil {
		return err
	}
	switch {
	case what == "input_items":
		return c.inputItems(r)
	case what != "":
		return c.noSuchPath()
	}
	stream, after, err := c.replayWanted()
	switch {
	case err != nil:
		return err
	case stream:
		return c.responsesReplay(r, after)
	}
	c.writeJSON(http.StatusOK, r.Response)
	return nil
}

func (c *call) noSuchPath() error {
	return perigee.Errorf(perigee.ClassNotFound, "no such path: %s %s", c.r.Method, shorten(c.path))
}

// The page sizes of the API.
const (
	defaultItems = 20
	maxItems     = 100
)

func (c *call) inputItems(r *perigee.StoredResponse) error {
	query := c.r.URL.Query()
	q := responses.ItemsQuery{Limit: defaultItems, After: query.Get("after")}
	if v := query.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxItems {
			return perigee.Errorf(perigee.ClassInvalid, "limit %q is not a number from 1 to %d", shorten(v), maxItems)
		}
		q.Limit = n
	}
	switch order := query.Get("order"); order {
	case "", "desc":
	case "asc":
		q.Ascending = true
	default:
		return perigee.Errorf(perigee.ClassInvalid, "order %q is neither asc nor desc", shorten(order))
	}
	page, ok := responses.PageItems(r.Input, q)
	if !ok {
		return perigee.Errorf(perigee.ClassNotFound, "Item with id '%s' not found.", shorten(q.After))
	}
	c.writeJSON(http.StatusOK, page)
	return nil
}

// responsesAct answers POST /v1/responses/{id}/cancel.
func (c *call) responsesAct() error {
	id, what, _ := strings.Cut(c.rest, "/")
	if what != "cancel" {
		return c.noSuchPath()
	}
	if running := c.behind.find(id, c.keyName()); running != nil {
		if err := running.stop(c.r.Context()); err != nil {
			return err
		}
	}
	r, _, err := c.stored()
	if err != nil {
		return err
	}
	if !responses.StateOf(r.Response).Background {
		return perigee.Errorf(perigee.ClassInvalid, "Cannot cancel a synchronous response.").
			WithNext("only responses that were made with background: true can be cancelled")
	}
	c.writeJSON(http.StatusOK, r.Response)
	return nil
}

// responsesDelete answers DELETE /v1/responses/{id}.
func (c *call) responsesDelete() error {
	if c.opts.Responses == nil {
		return perigee.Errorf(perigee.ClassUnimplemented, "nothing is stored here")
	}
	if strings.Contains(c.rest, "/") {
		return c.noSuchPath()
	}
	if running := c.behind.find(c.rest, c.keyName()); running != nil {
		if err := running.stop(c.r.Context()); err != nil {
			return err
		}
	}
	if err := c.opts.Responses.DeleteResponse(c.r.Context(), c.keyName(), c.rest); err != nil {
		return err
	}
	c.writeJSON(http.StatusOK, responses.Deleted(c.rest))
	return nil
}

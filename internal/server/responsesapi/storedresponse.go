package responsesapi

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/dialect/openai"
	"perigee/internal/dialect/openai/responses"
	"perigee/internal/server/membudget"
	"perigee/internal/server/mount"
	"perigee/internal/server/reqbody"
)

// An API holds the services behind the paths.
type API struct {
	Store     perigee.ResponseStore // nil if responses are not stored
	Upstream  perigee.Passthrough   // is asked about the responses that upstreams store
	Runs      *Runs
	Memory    *membudget.Budget    // nil if memory is not counted
	KeepAlive func() time.Duration // how long a stream may be quiet
}

// Point returns the path of all stored responses.
func (a *API) Point() mount.Point {
	handler := func(answer func(*request) error) mount.Handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			q := &request{API: a, w: w, r: r, call: mount.CallOf(r)}
			q.id, q.subpath, _ = strings.Cut(mount.Wildcard(r), "/")
			defer q.lease.Close()
			if upstream, err := q.upstream(); err != nil || upstream != "" {
				return cmp.Or(err, q.callUpstream(upstream))
			}
			return answer(q)
		}
	}
	return mount.Methods{
		http.MethodGet: handler((*request).read), http.MethodPost: handler((*request).act),
		http.MethodDelete: handler((*request).remove),
	}.At("/v1/responses/*", mount.Client)
}

// A request is about one stored response.
type request struct {
	*API
	w        http.ResponseWriter
	r        *http.Request
	call     *mount.Call
	id       string
	subpath  string // the rest of the path
	lease    membudget.Lease
	reserved int64
	headSent bool // the head of a stream is out
}

// stored loads the response.
func (q *request) stored() (*perigee.StoredResponse, error) {
	if q.Store == nil {
		return nil, noStore()
	}
	running := q.Runs.Find(q.id, q.call.Key) != nil // before it is read, since it may end meanwhile
	if err := q.lease.Open(q.Memory, q.call.Trusted); err != nil {
		return nil, err
	}
	size, err := q.Store.ResponseSize(q.r.Context(), q.call.Key, q.id)
	if err != nil {
		return nil, err
	}
	if err := q.reserve(size); err != nil {
		return nil, err
	}
	r, err := q.Store.Response(q.r.Context(), q.call.Key, q.id)
	if err != nil {
		return nil, err
	}
	// It may have been replaced since its size was read.
	if err := q.reserve(int64(len(r.Response) + len(r.Input) + len(r.Output))); err != nil {
		return nil, err
	}
	if responses.StateOf(r.Response).Pending && !running {
		r.Response = responses.CutOff(r.Response)
	}
	return r, nil
}

func noStore() error { return perigee.Errorf(perigee.ClassUnimplemented, "nothing is stored here") }

// reserve has memory for a response of that size reserved, neither more nor less.
func (q *request) reserve(size int64) error {
	if q.Memory == nil {
		return nil
	}
	weight := reqbody.Weight(size, q.Memory.MaxCall())
	if err := q.lease.Grow(weight - q.reserved); err != nil {
		return err
	}
	q.lease.Shrink(q.reserved - weight)
	q.reserved = weight
	return nil
}

// read answers GET /v1/responses/{id} and GET /v1/responses/{id}/input_items.
func (q *request) read() error {
	r, err := q.stored()
	if err != nil {
		return err
	}
	switch {
	case q.subpath == "input_items":
		return q.inputItems(r)
	case q.subpath != "":
		return q.noSuchPath()
	}
	stream, after, err := q.replayWanted()
	switch {
	case err != nil:
		return err
	case stream:
		return q.replay(after)
	}
	mount.WriteJSON(q.w, http.StatusOK, r.Response)
	return nil
}

func (q *request) noSuchPath() error {
	return perigee.Errorf(perigee.ClassNotFound, "no such path: %s %s", q.r.Method, mount.Shorten(q.r.URL.Path))
}

// The page sizes of the API.
const (
	defaultItems = 20
	maxItems     = 100
)

func (q *request) inputItems(r *perigee.StoredResponse) error {
	query := q.r.URL.Query()
	limit, err := mount.Limit(query, defaultItems, maxItems, "")
	if err != nil {
		return err
	}
	items := responses.ItemsQuery{Limit: limit, After: query.Get("after")}
	switch order := query.Get("order"); order {
	case "", "desc":
	case "asc":
		items.Ascending = true
	default:
		return perigee.Errorf(perigee.ClassInvalid, "order %q is neither asc nor desc", mount.Shorten(order))
	}
	page, ok := responses.PageItems(r.Input, items)
	if !ok {
		return perigee.Errorf(perigee.ClassNotFound, "Item with id '%s' not found.", mount.Shorten(items.After))
	}
	mount.WriteJSON(q.w, http.StatusOK, page)
	return nil
}

// act answers POST /v1/responses/{id}/cancel.
func (q *request) act() error {
	if q.subpath != "cancel" {
		return q.noSuchPath()
	}
	if err := q.stop(); err != nil {
		return err
	}
	r, err := q.stored()
	if err != nil {
		return err
	}
	if !responses.StateOf(r.Response).Background {
		return perigee.Errorf(perigee.ClassInvalid, "Cannot cancel a synchronous response.").
			WithHint("only responses that were made with background: true can be cancelled")
	}
	mount.WriteJSON(q.w, http.StatusOK, r.Response)
	return nil
}

// stop cancels the response if it is being made.
func (q *request) stop() error {
	if running := q.Runs.Find(q.id, q.call.Key); running != nil {
		return running.stop(q.r.Context())
	}
	return nil
}

// remove answers DELETE /v1/responses/{id}.
func (q *request) remove() error {
	if q.Store == nil {
		return noStore()
	}
	if strings.Contains(mount.Wildcard(q.r), "/") {
		return q.noSuchPath()
	}
	if err := q.stop(); err != nil {
		return err
	}
	if err := q.Store.DeleteResponse(q.r.Context(), q.call.Key, q.id); err != nil {
		return err
	}
	mount.WriteJSON(q.w, http.StatusOK, responses.Deleted(q.id))
	return nil
}

// replayWanted reads whether a stored response is wanted as a stream, and after which event.
func (q *request) replayWanted() (stream bool, after int64, err error) {
	query := q.r.URL.Query()
	switch word := query.Get("stream"); word {
	case "", "false":
	case "true":
		stream = true
	default:
		return false, 0, openai.Wrong("stream", "want true or false, found %q", mount.Shorten(word))
	}
	after = -1
	if number := query.Get("starting_after"); number != "" {
		if after, err = strconv.ParseInt(number, 10, 64); err != nil || after < 0 {
			return false, 0, openai.Wrong("starting_after", "want the number of an event, found %q", mount.Shorten(number))
		}
		if !stream {
			return false, 0, openai.Wrong("starting_after", "a response that comes in one piece has no events").
				WithHint("ask with stream=true")
		}
	}
	return stream, after, nil
}

// replay answers with a stored response as a stream. One that is still being made is waited for.
func (q *request) replay(after int64) error {
	if running := q.Runs.Find(q.id, q.call.Key); running != nil {
		if err := q.await(running); err != nil {
			if q.headSent {
				return nil // the client is gone
			}
			return err
		}
	}
	// Also where it is not being made now: it may have ended since it was read.
	r, err := q.stored()
	if err != nil {
		if !q.headSent {
			return err
		}
		q.send(responses.ReplayError(q.call.Explain(err)))
		return nil
	}
	q.send(responses.Replay(r.Response, after))
	return nil
}

// await waits until the result of a run is stored, and sends keep-alives to the client meanwhile.
func (q *request) await(running *Run) error {
	ticker := time.NewTicker(q.KeepAlive())
	defer ticker.Stop()
	for {
		select {
		case <-running.done:
			return nil
		case <-q.r.Context().Done():
			return q.r.Context().Err()
		case <-ticker.C:
			q.send(responses.ReplayIdle())
		}
	}
}

// send sends a piece of a stream, after the head if that is not out yet.
func (q *request) send(events []byte) {
	if !q.headSent {
		q.headSent = true
		mount.StreamHeader(q.w.Header(), "text/event-stream; charset=utf-8")
		q.w.WriteHeader(http.StatusOK)
	}
	if _, err := q.w.Write(events); err == nil { // the client may be gone
		_ = http.NewResponseController(q.w).Flush()
	}
}

package conversation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/intercept/cloud"
	"perigee/internal/langserver/trajectory"
	"perigee/internal/lib/rawjson"
	"perigee/internal/lib/wire"
)

// CarrierOptions configure a Carrier. Zero values mean defaults.
type CarrierOptions struct {
	Name   string // of the upstream
	Client Client
	Calls  *cloud.Calls // observes the calls of the language server to the cloud
	Own    *Own         // deletes conversations that are not continued; nil keeps all of them
	Logger *slog.Logger

	// Use signs the language server in with the account that has an access token. release is
	// called when the language server has made its request to the cloud, or when it will not; it
	// may be called more than once. If Use is nil, any account may be used.
	Use func(ctx context.Context, token string) (release func(), err error)
	// Stuck is called when the language server keeps using another account. It may be nil.
	Stuck func()

	Settle time.Duration // how long its turn may take to end after the provider's answer; default 5 s

	// Reuse is how long a request waits for the conversation that it continues: clients send the
	// results of tools at once, while the language server is still ending its turn. After that
	// time starting another conversation is quicker. The default is 2 s.
	Reuse time.Duration

	// Keep is how long a conversation is kept for the request that continues it. Starting another
	// one costs at most one more summary by the language server. The default is 30 s.
	Keep time.Duration
}

// A Carrier sends requests for the cloud inside the requests of a language server. The language
// server gets a message; when it calls the cloud to answer that message, the interceptor puts the
// request into the language server's own envelope, and the answer goes to both.
//
// It is an http.RoundTripper, so that the handling of requests, answers and errors of the cloud
// stays in one place, the upstream that uses it. The access token of a request selects the account
// that the language server has to use; it is not sent.
type Carrier struct {
	opts     CarrierOptions
	reusable conversations[*carriedTurn]

	base       context.Context // context of waits for the ends of turns; done at Close
	cancel     context.CancelFunc
	work       context.Context // context of cancellations and deletions; done at the end of Close
	stop       context.CancelFunc
	background Background
}

// NewCarrier returns a Carrier.
func NewCarrier(opts CarrierOptions) *Carrier {
	opts.Settle = cmp.Or(opts.Settle, 5*time.Second)
	opts.Reuse, opts.Keep = cmp.Or(opts.Reuse, 2*time.Second), cmp.Or(opts.Keep, 30*time.Second)
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	c := &Carrier{opts: opts}
	c.work, c.stop = context.WithCancel(context.Background())
	c.base, c.cancel = context.WithCancel(c.work)
	return c
}

// callGrace is how long the language server may take to call the cloud.
const callGrace = time.Minute

// closeLimit bounds the deletion of conversations in Close. Remaining conversations are deleted at
// the next start.
const closeLimit = 2 * time.Second

// Close stops waiting for the ends of turns, and deletes the conversations: the language server
// ends next.
func (c *Carrier) Close(ctx context.Context) error {
	c.cancel()
	for _, turn := range c.reusable.clear() {
		turn.discard()
	}
	defer context.AfterFunc(ctx, c.stop)()
	defer time.AfterFunc(closeLimit, c.stop).Stop()
	defer c.stop()
	return c.background.Close(ctx)
}

// carrierText is the message that the language server gets. The model reads the request instead.
const carrierText = "Carried by perigee."

// RoundTrip carries a request, and returns the answer of the cloud as soon as its header has
// arrived. If the language server ends before it has called the cloud, another conversation is
// tried.
func (c *Carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	body := make([]byte, max(req.ContentLength, 0)) // set by the caller
	_, err := io.ReadFull(req.Body, body)
	_ = req.Body.Close()
	if err != nil {
		return nil, err
	}
	payload, err := newPayload(body)
	if err != nil {
		return nil, err
	}
	payload.token = strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	pause := firstPause
	for try := 1; ; try++ {
		resp, err := c.carrySignedIn(req.Context(), payload)
		if err != nil && req.Context().Err() != nil {
			// the caller's own error, which has the cause, such as a timeout, and not the error of
			// the inner call
			return nil, req.Context().Err()
		}
		if !errors.Is(err, ErrLost) || try == maxTries || payload.sent == maxSent {
			return resp, err
		}
		c.opts.Logger.Info("conversation lost, starting another", "upstream", c.opts.Name, "error", err)
		if !perigee.Pause(req.Context(), pause) {
			return nil, req.Context().Err()
		}
		pause *= 2
	}
}

// A payload is a request to carry.
type payload struct {
	model   string
	request []byte
	// history keys of the conversation that it continues, and of the one that results
	before, after historyKey
	sent          int    // messages that carried it
	token         string // of the account that the language server has to use
	called        bool   // the language server has made its request to the cloud
}

// newPayload reads the envelope of a request. A conversation is recognized by its user turns,
// because clients may store model turns in another form. The session distinguishes conversations
// that start with the same turns, and the keys of clients.
func newPayload(body []byte) (*payload, error) {
	c := &payload{}
	var model string
	cursor := rawjson.NewCursor(body)
	cursor.Read(nil, "model", &model, "request", func() { c.request = cursor.Raw() })
	if err := cursor.Err(); err != nil || c.request == nil {
		return nil, fmt.Errorf("request without an envelope: %w", err)
	}
	c.model = model
	var session string
	var contents []byte
	cursor = rawjson.NewCursor(c.request)
	cursor.Read(nil, "sessionId", &session, "contents", func() { contents = cursor.Raw() })
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q", model, session)
	c.before = historyKey(hash.Sum(nil))
	cursor = rawjson.NewCursor(contents)
	for range cursor.Array() {
		start := cursor.Offset()
		var role string
		cursor.Read(nil, "role", &role)
		if role == perigee.RoleModel {
			c.before = historyKey(hash.Sum(nil))
			continue
		}
		fmt.Fprintf(hash, " %d ", cursor.Offset()-start)
		hash.Write(contents[start:cursor.Offset()])
	}
	c.after = historyKey(hash.Sum(nil))
	return c, cursor.Err()
}

// carry sends a message to a conversation and returns the answer of the cloud to the call that the
// language server makes for that message.
func (c *Carrier) carry(ctx context.Context, payload *payload) (*http.Response, error) {
	turn := &carriedTurn{carrier: c, key: payload.after, over: make(chan struct{})}
	if earlier, ok := c.reusable.take(payload.before); ok {
		if earlier.awaitReusable(ctx) {
			turn.conversation = earlier.conversation
		} else {
			earlier.discard()
		}
	}
	if turn.cascade == "" {
		cascade, err := c.opts.Client.Start(ctx, payload.model)
		turn.cascade = cascade
		c.opts.Own.addConversation(cascade)
		if err != nil {
			turn.lost()
			return nil, err
		}
		c.opts.Calls.Own(cascade)
	}
	release, err := c.use(ctx, payload)
	if err != nil {
		turn.ends(false)
		return nil, err
	}
	defer release()
	c.opts.Own.addMessage(turn.cascade, carrierText)
	expected := c.opts.Calls.Expect(ctx, turn.cascade, cloud.Call{
		Model: payload.model, Request: payload.request, Sent: func(body []byte) { wire.Sent(ctx, body) },
	})
	defer onCall(expected, release)()
	err = c.opts.Client.Send(ctx, turn.cascade, Message{Text: carrierText, Model: payload.model, Known: turn.cursor.Size()})
	if errors.Is(err, ErrLost) {
		expected.Cancel()
		turn.lost() // it did not receive the message, so there is nothing to cancel
		return nil, err
	}
	payload.sent++
	var resp *http.Response
	if err == nil {
		resp, err = turn.answer(ctx, expected)
	}
	if err != nil {
		payload.called = hasCalled(expected)
		expected.Cancel()
		turn.ends(false)
		return nil, err
	}
	resp.Body = &carriedBody{ReadCloser: resp.Body, turn: turn, good: resp.StatusCode == http.StatusOK}
	return resp, nil
}

// A carriedTurn is the language server's turn in a conversation that carries a request.
type carriedTurn struct {
	conversation
	carrier *Carrier
	key     historyKey // history key after this turn

	once, discarded sync.Once

	over chan struct{} // closed when the language server has ended it, or should have
	well bool          // whether it has ended by itself; set before over is closed
}

// answer returns the answer of the cloud. The end of the turn is an error only until the language
// server has called the cloud.
func (t *carriedTurn) answer(ctx context.Context, expected *cloud.Expected) (resp *http.Response, err error) {
	watched, cancel := context.WithTimeout(ctx, callGrace)
	over, answered := make(chan struct{}), make(chan struct{})
	var ended error
	go func() { defer close(over); ended = t.follow(watched) }()
	go func() { defer close(answered); resp, err = expected.Wait() }()
	defer func() { cancel(); <-over }() // the goroutine uses the cursor
	select {
	case <-answered:
		return resp, err
	case <-over:
	}
	select {
	case <-expected.Taken():
		<-answered
		return resp, err
	default:
	}
	expected.Cancel()
	<-answered
	if _, ok := errors.AsType[*perigee.Error](err); ok || err == nil {
		return resp, err // it failed for another reason, or arrived at the last moment
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case watched.Err() != nil:
		e := perigee.Errorf(perigee.ClassUnavailable, "the language server did not call the cloud within %s", callGrace)
		e.Status = http.StatusGatewayTimeout
		return nil, e
	case ended == nil:
		return nil, perigee.Errorf(perigee.ClassUnavailable, "the language server ended its turn without a call to the cloud")
	case perigee.AsError(ended).Class == perigee.ClassUnavailable && !errors.Is(ended, ErrLost):
		// A process that has just started may not have loaded its models yet. The cloud was not
		// called, so another message costs nothing.
		return nil, fmt.Errorf("%w: %w", ErrLost, ended)
	}
	return nil, ended
}

// follow returns when the turn has ended, with its error if it failed.
func (t *carriedTurn) follow(ctx context.Context) error {
	var failed error
	for event, err := range t.carrier.opts.Client.Follow(ctx, t.cascade, &t.cursor) {
		switch {
		case err != nil:
			return err
		case event.Kind == trajectory.KindError:
			failed = event.Error
		case event.Kind == trajectory.KindDone && event.Reason == trajectory.ReasonDone:
			return nil
		case event.Kind == trajectory.KindDone:
			return cmp.Or(failed, error(perigee.Errorf(perigee.ClassUnavailable, "the language server ended its turn: %s", event.Reason)))
		}
	}
	return ctx.Err()
}

// ends keeps the conversation if the request was answered without an error. Otherwise it cancels
// the turn in the language server and deletes the conversation.
func (t *carriedTurn) ends(answered bool) {
	t.once.Do(func() {
		c := t.carrier
		if answered {
			for _, earlier := range c.reusable.keep(t.key, t) {
				earlier.discard()
			}
		}
		runs := c.background.Go(func() {
			if t.well = answered && t.awaitEnd(); !t.well {
				t.cancel()
			}
			close(t.over)
			if t.well {
				time.AfterFunc(c.opts.Keep, func() {
					if c.reusable.drop(t.key, t) {
						t.discard()
					}
				})
				return
			}
			c.reusable.drop(t.key, t)
			t.discard()
		})
		if !runs {
			close(t.over)
		}
	})
}

// lost ends a turn in a conversation that does not work.
func (t *carriedTurn) lost() {
	t.once.Do(func() {
		t.well = true // nothing runs
		close(t.over)
		t.discard()
	})
}

func (t *carriedTurn) cancel() {
	ctx, cancel := context.WithTimeout(t.carrier.work, cancelLimit)
	defer cancel()
	if err := t.carrier.opts.Client.Cancel(ctx, t.cascade); err != nil && t.carrier.base.Err() == nil {
		t.carrier.opts.Logger.Warn("conversation not canceled", "upstream", t.carrier.opts.Name, "error", err)
	}
}

// discard deletes the conversation after its turn, because no request will continue it.
func (t *carriedTurn) discard() {
	t.discarded.Do(func() {
		c := t.carrier
		c.background.Go(func() {
			<-t.over
			ctx, cancel := context.WithTimeout(c.work, cancelLimit)
			defer cancel()
			if !t.well {
				waiting, cancel := context.WithTimeout(ctx, cancelLimit/2)
				// otherwise its files might be written once more
				t.conversation.ends(waiting, c.opts.Client)
				cancel()
			}
			c.opts.Own.delete(ctx, t.cascade)
		})
	})
}

// awaitEnd waits for the end of the turn, which comes after the answer of the cloud.
func (t *carriedTurn) awaitEnd() bool {
	ctx, cancel := context.WithTimeout(t.carrier.base, t.carrier.opts.Settle)
	defer cancel()
	return t.follow(ctx) == nil
}

// awaitReusable waits until the conversation can carry another request, and reports whether it can.
func (t *carriedTurn) awaitReusable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, t.carrier.opts.Reuse)
	defer cancel()
	select {
	case <-t.over:
		return t.well
	case <-ctx.Done():
		return false
	}
}

// A carriedBody is the answer of the cloud.
type carriedBody struct {
	io.ReadCloser
	turn  *carriedTurn
	good  bool // the answer is not an error
	whole bool // it was read to its end
}

func (b *carriedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.whole = b.whole || err == io.EOF
	return n, err
}

func (b *carriedBody) Close() error {
	err := b.ReadCloser.Close()
	b.turn.ends(b.good && b.whole)
	return err
}

// streamCarried returns the gateway's answer to a request.
func (u *Upstream) streamCarried(ctx context.Context, req *perigee.Request, yield func(perigee.Event, error) bool) {
	model, leave, err := u.admit(ctx, req)
	if err != nil {
		yield(perigee.Event{}, u.explain(req.Model, err))
		return
	}
	defer leave()
	for event, err := range u.opts.Gateway.Stream(ctx, req.WithModel(model)) {
		if err != nil {
			err = u.explain(model, err)
		}
		if !yield(event, err) {
			return
		}
	}
}

// admit waits for a place in the queue and for the language server, and returns the ID of the
// model.
func (u *Upstream) admit(ctx context.Context, req *perigee.Request) (model string, leave func(), err error) {
	if err := textOnly(req); err != nil {
		return "", nil, err
	}
	if leave, err = u.queue.enter(ctx); err != nil {
		return "", nil, err
	}
	if err = u.opts.Wait(ctx); err == nil {
		model, err = u.identify(ctx, req.Model)
	}
	if err != nil {
		leave()
	}
	return model, leave, err
}

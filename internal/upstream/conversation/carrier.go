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
	Calls  *cloud.Calls // sees what the language server sends to the cloud
	Own    *Own         // deletes conversations that are not continued; nil: all of them stay
	Logger *slog.Logger

	// Use signs the language server in with the account that has an access token. Release is called
	// when the language server has made its request to the cloud, or when it will not; it may be
	// called more than once. Nil: the account does not matter.
	Use func(ctx context.Context, token string) (release func(), err error)
	// Stuck is told that the language server goes on to use another account. Nil: that does not
	// happen.
	Stuck func()

	Settle time.Duration // how long its turn may take to end after the provider's answer; default 5 s

	// Reuse is how long a request waits for the conversation that it continues: clients send the
	// results of tools at once, while the language server is still ending its turn. After that
	// another conversation is quicker. Default 2 s.
	Reuse time.Duration

	// Keep is how long a conversation is kept for the request that continues it. It costs nothing
	// to begin another one but a further summary that the language server may make of it. Default
	// 30 s.
	Keep time.Duration
}

// A Carrier sends requests for the cloud inside those of a language server. The language server
// gets a message; when it asks the cloud to answer that, the interceptor puts the request into the
// language server's own envelope, and the answer goes to both.
//
// It is an http.RoundTripper, so that whatever is known about requests, answers and errors of the
// cloud stays in one place, the upstream that uses it. The access token of a request says which
// account the language server has to use; it is not sent.
type Carrier struct {
	opts CarrierOptions
	kept conversations[*carriedTurn]

	base       context.Context // of waits for the ends of turns; done at Close
	cancel     context.CancelFunc
	work       context.Context // of cancellations and deletions; done at the end of Close
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

// closeLimit bounds the deletion of conversations at the end. What is left then is deleted at the
// next start.
const closeLimit = 2 * time.Second

// Close stops to wait for the ends of turns, and deletes the conversations: the language server
// ends next.
func (c *Carrier) Close(ctx context.Context) error {
	c.cancel()
	for _, turn := range c.kept.clear() {
		turn.discard()
	}
	defer context.AfterFunc(ctx, c.stop)()
	defer time.AfterFunc(closeLimit, c.stop).Stop()
	defer c.stop()
	return c.background.Close(ctx)
}

// carrierText is the message that the language server gets. What the model reads is the request.
const carrierText = "Carried by perigee."

// RoundTrip has a request carried, and returns the answer of the cloud as soon as its header is
// there. If the language server ends before it has called the cloud, another conversation is tried.
func (c *Carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	body := make([]byte, max(req.ContentLength, 0)) // which the caller knows
	_, err := io.ReadFull(req.Body, body)
	_ = req.Body.Close()
	if err != nil {
		return nil, err
	}
	cargo, err := newCargo(body)
	if err != nil {
		return nil, err
	}
	cargo.token = strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	pause := firstPause
	for try := 1; ; try++ {
		resp, err := c.carrySignedIn(req.Context(), cargo)
		if err != nil && req.Context().Err() != nil {
			return nil, req.Context().Err() // not as the call in between saw it: the caller knows the cause, a time-out for example
		}
		if !errors.Is(err, ErrLost) || try == maxTries || cargo.sent == maxSent {
			return resp, err
		}
		c.opts.Logger.Info("conversation lost, starting another", "upstream", c.opts.Name, "error", err)
		if !perigee.Pause(req.Context(), pause) {
			return nil, req.Context().Err()
		}
		pause *= 2
	}
}

// cargo is a request to carry.
type cargo struct {
	model         string
	request       []byte
	before, after historyKey // of the conversation that it continues, and of the one that it leads to
	sent          int        // messages that carried it
	token         string     // of the account that the language server has to use
	called        bool       // the language server has made its request to the cloud
}

// newCargo reads the envelope of a request. A conversation is recognized by what the user's side
// has said in it: what the model said comes back as the client keeps it. The session tells apart
// conversations that begin alike, and the keys of clients.
func newCargo(body []byte) (*cargo, error) {
	c := &cargo{}
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

// carry sends a message to a conversation and waits for the answer of the cloud to what the
// language server makes of it.
func (c *Carrier) carry(ctx context.Context, cargo *cargo) (*http.Response, error) {
	turn := &carriedTurn{carrier: c, key: cargo.after, over: make(chan struct{})}
	if earlier, ok := c.kept.take(cargo.before); ok {
		if earlier.settled(ctx) {
			turn.conversation = earlier.conversation
		} else {
			earlier.discard()
		}
	}
	if turn.cascade == "" {
		cascade, err := c.opts.Client.Start(ctx, cargo.model)
		turn.cascade = cascade
		c.opts.Own.started(cascade)
		if err != nil {
			turn.lost()
			return nil, err
		}
		c.opts.Calls.Own(cascade)
	}
	release, err := c.use(ctx, cargo)
	if err != nil {
		turn.ends(false)
		return nil, err
	}
	defer release()
	c.opts.Own.message(turn.cascade, carrierText)
	expected := c.opts.Calls.Expect(ctx, turn.cascade, cloud.Call{
		Model: cargo.model, Request: cargo.request, Sent: func(body []byte) { wire.Sent(ctx, body) },
	})
	defer onCall(expected, release)()
	err = c.opts.Client.Send(ctx, turn.cascade, Message{Text: carrierText, Model: cargo.model, Known: turn.cursor.Size()})
	if errors.Is(err, ErrLost) {
		expected.Cancel()
		turn.lost() // it never got the message, so there is nothing to cancel
		return nil, err
	}
	cargo.sent++
	var resp *http.Response
	if err == nil {
		resp, err = turn.answer(ctx, expected)
	}
	if err != nil {
		cargo.called = called(expected)
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
	key     historyKey // of the conversation after it

	once, discarded sync.Once

	over chan struct{} // closed when the language server has ended it, or should have
	well bool          // it has; set before over is closed
}

// answer returns the answer of the cloud. Until the language server has called the cloud, its turn
// can end without an answer; after that it does not matter what becomes of it.
func (t *carriedTurn) answer(ctx context.Context, expected *cloud.Expected) (resp *http.Response, err error) {
	watched, cancel := context.WithTimeout(ctx, callGrace)
	over, answered := make(chan struct{}), make(chan struct{})
	var ended error
	go func() { defer close(over); ended = t.follow(watched) }()
	go func() { defer close(answered); resp, err = expected.Wait() }()
	defer func() { cancel(); <-over }() // which uses the cursor
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
		return resp, err // it failed for another reason, or came after all
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
		// A process that has just started may not know its models yet. The cloud was not asked, so
		// another message costs nothing.
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

// ends keeps the conversation if the request was answered well. Otherwise it cancels what the
// language server still does, and deletes the conversation.
func (t *carriedTurn) ends(answered bool) {
	t.once.Do(func() {
		c := t.carrier
		if answered {
			for _, earlier := range c.kept.keep(t.key, t) {
				earlier.discard()
			}
		}
		runs := c.background.Go(func() {
			if t.well = answered && t.settles(); !t.well {
				t.cancel()
			}
			close(t.over)
			if t.well {
				time.AfterFunc(c.opts.Keep, func() {
					if c.kept.drop(t.key, t) {
						t.discard()
					}
				})
				return
			}
			c.kept.drop(t.key, t)
			t.discard()
		})
		if !runs {
			close(t.over)
		}
	})
}

// lost is the end of a turn whose conversation does not work.
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
				t.conversation.ends(waiting, c.opts.Client) // otherwise it might be written once more
				cancel()
			}
			c.opts.Own.delete(ctx, t.cascade)
		})
	})
}

// settles waits for the end of the turn, which comes after the answer of the cloud.
func (t *carriedTurn) settles() bool {
	ctx, cancel := context.WithTimeout(t.carrier.base, t.carrier.opts.Settle)
	defer cancel()
	return t.follow(ctx) == nil
}

// settled waits until the conversation can carry another request, and reports whether it can.
func (t *carriedTurn) settled(ctx context.Context) bool {
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
	good  bool // the answer is no error
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

// carried has the gateway answer a request.
func (u *Upstream) carried(ctx context.Context, req *perigee.Request, yield func(perigee.Event, error) bool) {
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

// admit waits for a place and for the language server, and returns the ID of the model.
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

package api

import (
	"cmp"
	"context"
	"iter"
	"strings"

	"perigee"
	"perigee/internal/lib/sse"
	"perigee/internal/lib/wire"
)

// Stream requests a stream, or one answer if the caller does not stream. Callers in the dialect of
// the API get the provider's chunks as frames.
func (u *Upstream) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		x := &exchange{Upstream: u, req: req, via: u.wire(req), yield: yield, trail: trail{upstream: u, log: req.Log}}
		err := x.run(ctx)
		x.trail.ends(err)
		if err != nil {
			yield(perigee.Event{}, err)
		}
	}
}

// An exchange is one call of a model.
type exchange struct {
	*Upstream
	req     *perigee.Request
	via     *Wire
	sent    message
	trail   trail
	yield   func(perigee.Event, error) bool
	started bool           // the caller has received an event, which cannot be withdrawn
	noted   []perigee.Note // the notes of the message that was sent, without those that the log had before
}

// run sends the request, and once more if it was refused for a reason that can be repaired. The
// caller yields the error and ends the trail.
func (x *exchange) run(ctx context.Context) (err error) {
	if err := x.offers(x.req.Model); err != nil {
		return err
	}
	if x.prepare != nil {
		if err := x.prepare(ctx, x.Upstream, x.req); err != nil {
			return err
		}
	}
	if err := x.enter(ctx, x.req.Model, &x.trail); err != nil {
		return err
	}
	defer x.leave()
	if x.sent, err = x.via.message(x.req); err != nil {
		return err
	}
	defer x.sent.release()
	if err = x.change(x.req, x.via, &x.sent); err != nil {
		return err
	}
	if err = x.ask(ctx, &x.sent); err == nil || x.started {
		return err
	}
	return x.again(ctx, &x.sent, x.via.repair, err)
}

// again sends a refused message once more as repair writes it. The repaired message may have a repair
// of its own.
func (x *exchange) again(ctx context.Context, sent *message, repair repairer, refused error) error {
	if repair == nil {
		return refused
	}
	repaired, ok := repair(x.req, sent, refused)
	if !ok {
		return refused
	}
	if err := x.change(x.req, x.via, &repaired); err != nil {
		return err
	}
	if repaired.repeats(sent) {
		return refused
	}
	x.trail.failed(refused)
	if repaired.anew {
		x.req.Log.Withdraw(x.noted)
	}
	err := x.ask(ctx, &repaired)
	if err != nil && !x.started {
		return x.again(ctx, &repaired, repaired.repair, err)
	}
	if repaired.learns != nil {
		repaired.learns()
	}
	return err
}

// pass yields an event.
func (x *exchange) pass(ev perigee.Event, err error) bool {
	x.started = true
	return x.yield(ev, err)
}

// ask sends a message and emits the answer. A nil error also means that the client has left.
func (x *exchange) ask(ctx context.Context, m *message) error {
	req := x.req
	for _, n := range m.notes {
		if req.Log.NoteOnce(n) { // the decoder of the request may have it, too
			x.noted = append(x.noted, n)
		}
	}
	body := wire.NewBody(m.body...).ShowTo(req.Log).In(cmp.Or(m.memory, req.Buffer))
	body.ReleaseWith(req, m.release)
	defer body.Wait()
	ctx, watchdog := wire.Watch(ctx, x.opts.FirstByte)
	defer watchdog.Stop()
	own := x.via.speaks(req)
	out := x.outgoing(x.via.target(x.opts.URL, req.Model, req.Stream), body, &req.Origin, own && x.via.raw)
	out.replace(m.header)
	resp, err := x.do(ctx, &out, quota{model: req.Model}, &x.trail)
	if err != nil {
		return x.explain(ctx, req.Model, err)
	}
	defer resp.Body.Close()

	// An error with status 200 comes in one piece, also where a stream was requested.
	streamed := req.Stream && !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json")
	// The provider's own chunks have the wrong names of tools that were renamed.
	frames := own && !m.undo.Needed() && (streamed == req.Stream || !x.via.raw)
	in := answer{relay: wire.NewRelay(&req.Origin, x.pass), origin: &req.Origin, upstream: x.opts.Name, dialect: x.via.dialect,
		header: x.answerHeader(&out, resp), frames: frames, hides: m.hides, undo: m.undo, clean: x.keys.clean, decoder: x.via.decoder(streamed)}
	defer in.release()
	if streamed {
		reader := sse.NewReader(resp.Body)
		reader.Raw, reader.Lines = frames && x.via.raw, x.via.lines
		err = in.relay.Stream(reader, watchdog, x.opts.Idle, &in)
	} else {
		limit := int64(maxAnswer)
		if x.via.lines { // it is a line, without images
			limit = sse.MaxLine
		}
		err = in.relay.Whole(resp.Body, limit, &in)
	}
	if err != nil && !in.relay.Left() {
		return x.explain(ctx, req.Model, err)
	}
	return nil
}

// Package record observes calls and writes one perigee.Call for each. A Recorder is a
// perigee.Upstream that wraps another one: the daemon puts it between the HTTP server and routing,
// and it passes every event on unchanged. Calls that do not use Stream are recorded with Begin,
// Observe and End.
//
// It neither delays a call nor fails one: a goroutine writes the rows in batches, and retries while
// the store fails. It keeps no bodies; the watchers of Options.Watch may.
package record

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"time"

	"perigee"
	"perigee/internal/store/batchwriter"
)

// Options configure a Recorder.
type Options struct {
	Store  perigee.CallStore
	Now    func() time.Time // nil means time.Now
	Logger *slog.Logger     // nil discards the log
	Linger time.Duration    // how long rows are collected before a batch is written; 0 means 50ms
	Limit  int              // rows kept in memory while the store fails; 0 means 10,000

	// Redact replaces known secrets in names and errors: a key may be in the field of the model,
	// and providers quote refused requests. It may be nil.
	Redact func(text string) string
	// Price returns the cost of a call that has ended. If it is nil, costs are unknown.
	Price func(*perigee.Call) perigee.Cost
	// Observe is called with each call that has ended, in the goroutine that ran it, so it must not
	// block. It must not change the call. It may be nil.
	Observe func(*perigee.Call)
	// Watch has functions that return a Watcher for a call that begins, or nil for none.
	Watch []func(call *perigee.Call, origin *perigee.Origin) perigee.Watcher
}

const (
	defaultLinger = 50 * time.Millisecond
	defaultLimit  = 10_000
)

// A Recorder is an Upstream that records the calls of another Upstream. It also counts tokens,
// embeds and lists models as far as the wrapped Upstream can. Close it after use.
type Recorder struct {
	perigee.Passthrough
	opts   Options
	writer *batchwriter.Writer[string, perigee.Call] // by id

	spending spending
}

// New returns a Recorder around next.
func New(next perigee.Upstream, opts Options) *Recorder {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.Linger = cmp.Or(opts.Linger, defaultLinger)
	opts.Limit = cmp.Or(opts.Limit, defaultLimit)
	r := &Recorder{Passthrough: perigee.Passthrough{Upstream: next}, opts: opts}
	r.writer = batchwriter.New[string](batchwriter.Options[perigee.Call]{
		Rows: "calls", Linger: opts.Linger, MaxRows: opts.Limit, Logger: opts.Logger,
		// The row of an open call is put again when the call ends.
		Expendable: func(call perigee.Call) bool { return call.Outcome == perigee.OutcomeOpen },
		Save: func(ctx context.Context, calls []perigee.Call) error {
			err := opts.Store.SaveCalls(ctx, calls)
			if err == nil {
				r.spending.saved(calls)
			}
			return err
		},
	})
	return r
}

// Stream passes on the stream of the wrapped Upstream. The call is written as open when the loop
// over it begins, and again when it ends.
func (r *Recorder) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		o := r.Begin(Operation{Name: perigee.OperationGenerate, Model: req.Model, Stream: req.Stream}, &req.Origin)
		o.request = req
		req.OnRelease(func() { o.asked = req.EstimateTokens() })
		defer o.End(ctx)
		for event, err := range r.Upstream.Stream(ctx, req) {
			if err != nil {
				o.Fail(err)
			} else {
				o.event = event // watchers get a pointer; a variable of the loop would be allocated for each event
				o.Observe(&o.event)
			}
			if !yield(event, err) {
				o.left = true
				return
			}
		}
	}
}

// CountTokens asks the wrapped Upstream and records the call. Counting uses no tokens, so the
// record has no usage.
func (r *Recorder) CountTokens(ctx context.Context, req *perigee.Request) (count *perigee.TokenCount, err error) {
	o := r.Begin(Operation{Name: perigee.OperationCount, Model: req.Model}, &req.Origin)
	defer o.End(ctx)
	count, err = r.Passthrough.CountTokens(ctx, req)
	if err != nil {
		o.Fail(err)
		return count, err
	}
	o.finished = true
	if count != nil {
		o.call.Upstream, o.call.Model = count.Upstream, count.Model
	}
	return count, nil
}

// Embed asks the wrapped Upstream and records the call with its usage.
func (r *Recorder) Embed(ctx context.Context, req *perigee.EmbedRequest) (answer *perigee.Embeddings, err error) {
	o := r.Begin(Operation{Name: perigee.OperationEmbed, Model: req.Model}, &req.Origin)
	defer o.End(ctx)
	answer, err = r.Passthrough.Embed(ctx, req)
	if err != nil {
		o.Fail(err)
		return answer, err
	}
	o.finished = true
	if answer != nil {
		o.call.Upstream, o.call.Model, o.call.Usage = answer.Upstream, answer.Model, answer.Usage
		o.estimated = answer.Estimate
	}
	return answer, nil
}

// Refused records a call that did not reach the wrapped Upstream.
func (r *Recorder) Refused(ctx context.Context, operation string, origin perigee.Origin, model string, err *perigee.Error) {
	o := r.Begin(Operation{Name: operation, Model: model}, &origin)
	o.Fail(err)
	o.End(ctx)
}

// Flush waits until all calls recorded so far are in the store. It does not wait for a store that
// fails.
func (r *Recorder) Flush(ctx context.Context) { r.writer.Flush(ctx) }

// Failure returns the error of the last batch of calls, or nil if the store has accepted it.
func (r *Recorder) Failure() error { return r.writer.Failure() }

// Close writes pending calls and stops the Recorder. While the store fails it retries until ctx
// ends, so ctx should have a deadline; the error then contains the number of lost calls. Calls that
// end after Close are not recorded.
func (r *Recorder) Close(ctx context.Context) error {
	if missing, err := r.writer.Close(ctx); err != nil {
		return perigee.Errorf(perigee.ClassUnavailable, "%d calls were not recorded: %w", missing, err)
	}
	return nil
}

// Package record watches calls and keeps one perigee.Call of each. A Recorder is a perigee.Upstream around
// another one: the daemon puts it between the ways in and the routing, and it passes every event on as it is.
//
// It never holds a call up and never fails one: rows are handed to a goroutine that writes them in batches,
// and trouble with the store is that goroutine's alone. It keeps no bodies and decides nothing.
package record

import (
	"context"
	"crypto/rand"
	"iter"
	"log/slog"
	"slices"
	"time"

	"perigee"
	"perigee/internal/batch"
)

// Options say where calls are kept.
type Options struct {
	Store  perigee.CallStore
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: silent
	// Status is the HTTP status that the client of a finished call got, for the log; nil: it is not logged.
	Status func(*perigee.Call) int
	Linger time.Duration // how long rows gather before they are written together; 0: 50ms
	Limit  int           // rows kept in memory while the store fails; 0: 10,000
}

const (
	defaultLinger = 50 * time.Millisecond
	defaultLimit  = 10_000
)

// A Recorder is an Upstream that records what passes through it. It also counts tokens, embeds and lists
// models as far as the Upstream inside can. Who made it closes it.
type Recorder struct {
	perigee.Around
	now    func() time.Time
	logger *slog.Logger
	status func(*perigee.Call) int
	queue  *queue
	writer *batch.Writer[rowBatch]

	spending spending
}

var words = batch.Words{
	Failing: "calls cannot be recorded for now",
	Again:   "calls are recorded again",
	TooMany: "more calls than could be recorded",
}

// New returns a Recorder around next. Its one goroutine runs until Close.
func New(next perigee.Upstream, opts Options) *Recorder {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Linger <= 0 {
		opts.Linger = defaultLinger
	}
	if opts.Limit <= 0 {
		opts.Limit = defaultLimit
	}
	r := &Recorder{Around: perigee.Around{Upstream: next}, now: opts.Now, logger: opts.Logger, status: opts.Status, queue: &queue{limit: opts.Limit}}
	r.writer = batch.Start(batch.Options[rowBatch]{
		Queue: r.queue, Linger: opts.Linger, Words: words, Logger: opts.Logger,
		Save: func(ctx context.Context, b rowBatch) error {
			err := opts.Store.SaveCalls(ctx, b.calls)
			if err == nil {
				r.spending.saved(b.calls)
			}
			return err
		},
	})
	return r
}

// Stream passes the stream of the Upstream inside on, and records it as one call when the loop over it
// begins, and again when it ends.
func (r *Recorder) Stream(ctx context.Context, req *perigee.Request) iter.Seq2[perigee.Event, error] {
	return func(yield func(perigee.Event, error) bool) {
		w := r.begin(perigee.OperationGenerate, &req.Origin, req.Model, req.Stream)
		w.request = req
		req.OnRelease(func() { w.asked = req.EstimateTokens() })
		defer w.end(ctx)
		for event, err := range r.Upstream.Stream(ctx, req) {
			if err != nil {
				w.err = err
			} else {
				w.see(&event)
			}
			if !yield(event, err) {
				w.left = true
				return
			}
		}
	}
}

// CountTokens asks the Upstream inside and records that it was asked. Counting spends no tokens, so the
// record shows no usage.
func (r *Recorder) CountTokens(ctx context.Context, req *perigee.Request) (count *perigee.TokenCount, err error) {
	w := r.begin(perigee.OperationCount, &req.Origin, req.Model, false)
	defer w.end(ctx)
	count, err = r.Around.CountTokens(ctx, req)
	if err != nil {
		return count, w.fail(err)
	}
	w.finished = true
	if count != nil {
		w.upstream, w.model = count.Upstream, count.Model
	}
	return count, nil
}

// Embed asks the Upstream inside and records the call with what it spent.
func (r *Recorder) Embed(ctx context.Context, req *perigee.EmbedRequest) (answer *perigee.Embeddings, err error) {
	w := r.begin(perigee.OperationEmbed, &req.Origin, req.Model, false)
	defer w.end(ctx)
	answer, err = r.Around.Embed(ctx, req)
	if err != nil {
		return answer, w.fail(err)
	}
	w.finished = true
	if answer != nil {
		w.upstream, w.model, w.usage = answer.Upstream, answer.Model, answer.Usage
		if answer.Estimate {
			w.notes = append(slices.Clip(w.notes), perigee.EstimatedUsage)
		}
	}
	return answer, nil
}

// Refused records a call that never reached the Upstream inside.
func (r *Recorder) Refused(ctx context.Context, operation string, origin perigee.Origin, model string, err *perigee.Error) {
	w := r.begin(operation, &origin, model, false)
	_ = w.fail(err)
	w.end(ctx)
}

// Flush waits until the calls that were told of so far are in the store, so that who reads it next sees them.
// A store that fails is not waited for.
func (r *Recorder) Flush(ctx context.Context) { r.writer.Flush(ctx) }

// Failure is why the store has refused the last batch of calls; nil: it has not.
func (r *Recorder) Failure() error { return r.writer.Failure() }

// Close writes what is pending and stops the Recorder. While the store fails it keeps trying until ctx
// ends, so give it a ctx that does; the error then says how many calls were lost. Calls that end after
// Close are not recorded.
func (r *Recorder) Close(ctx context.Context) error {
	if missing, err := r.writer.Close(ctx); err != nil {
		return perigee.Errorf(perigee.ClassUnavailable, "%d calls were not recorded: %w", missing, err)
	}
	return nil
}

// put queues what a row says now.
func (r *Recorder) put(row *row, call *perigee.Call) {
	r.writer.Add(func() { r.queue.put(row, call) })
}

// begin queues a call as open and returns the watch over it.
func (r *Recorder) begin(operation string, origin *perigee.Origin, model string, stream bool) *watch {
	w := &watch{recorder: r, start: r.now(), notes: origin.Notes, late: origin.Late}
	origin.Steps = &w.steps
	id := origin.ID
	if id == "" {
		id = rand.Text() // rows are kept by id, and two nameless calls are still two
	}
	w.row.call = perigee.Call{
		ID:        id,
		Time:      w.start,
		Operation: operation,
		Dialect:   origin.Dialect,
		Stream:    stream,
		Client: perigee.Client{
			Name:    perigee.Clip(origin.Client.Name, maxName),
			Version: perigee.Clip(origin.Client.Version, maxName),
			Key:     perigee.Clip(origin.Client.Key, maxName),
			Session: perigee.Clip(origin.Client.Session, maxName),
		},
		ModelAsked: perigee.Clip(model, maxName),
		Outcome:    perigee.OutcomeOpen,
		BytesIn:    int64(len(origin.Body)),
	}
	r.put(&w.row, &w.row.call)
	return w
}

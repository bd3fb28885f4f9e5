package gemini

import (
	"io"

	"perigee"
	dialect "perigee/internal/dialect/gemini"
	"perigee/internal/prepare"
	"perigee/internal/sse"
	"perigee/internal/upstream/wire"
)

// An answer is one response on its way to the caller.
type answer struct {
	upstream *Upstream
	frames   bool // the caller speaks this dialect and wants the provider's own chunks
	back     prepare.Back
	decoder  dialect.Decoder
	events   []perigee.Event
	yield    func(perigee.Event, error) bool
	left     bool // the caller went away
	more     bool // the next chunk is at hand
	silent   bool // this chunk said nothing
}

func (a *answer) stream(r *sse.Reader, dog *wire.Watchdog) error {
	for {
		dog.Busy(false)
		ev, err := r.Next()
		if err == io.EOF {
			return a.end()
		}
		if err != nil {
			return err
		}
		dog.Busy(true)
		promised := a.more
		a.more = r.Ready()
		if !a.more { // otherwise there is nothing to wait for
			dog.Reset(a.upstream.opts.Idle, wire.ErrIdle)
		}
		if len(ev.Data) > 0 && string(ev.Data) != "[DONE]" {
			if err := a.chunk(ev.Data); err != nil || a.left {
				return err
			}
		}
		if promised && !a.more && a.silent {
			if !a.send(perigee.Event{Kind: perigee.EventNothing}) {
				return nil
			}
		}
		a.silent = true
	}
}

func (a *answer) whole(r io.Reader) error {
	body, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err != nil {
		return err
	}
	if len(body) > maxAnswer {
		return perigee.Errorf(perigee.ClassUnavailable, "the provider's answer is larger than %d MiB", maxAnswer>>20)
	}
	if err := a.chunk(body); err != nil || a.left {
		return err
	}
	return a.end()
}

func (a *answer) chunk(data []byte) error {
	if a.more && a.decoder.Passing(data) {
		a.send(perigee.Event{Kind: perigee.EventFrame, Frame: data, More: true})
		return nil
	}
	events, err := a.decoder.Decode(a.events[:0], data)
	if err != nil {
		return err
	}
	a.events = events
	if len(events) > 0 && events[0].Kind == perigee.EventStart {
		events[0].Upstream = a.upstream.opts.Name
		if !a.send(events[0]) {
			return nil
		}
		events = events[1:]
	}
	if a.frames {
		if !a.send(perigee.Event{Kind: perigee.EventFrame, Frame: data, More: a.more || len(events) > 0}) {
			return nil
		}
	}
	for i := range events {
		a.back.Event(&events[i])
		events[i].More = a.more || i < len(events)-1
		if !a.send(events[i]) {
			return nil
		}
	}
	return nil
}

func (a *answer) send(ev perigee.Event) bool {
	a.silent = false
	a.left = !a.yield(ev, nil)
	return !a.left
}

// end judges a response that came to its end: one that never said why it stopped was cut short.
func (a *answer) end() error {
	if a.decoder.Finished() {
		return nil
	}
	return perigee.Errorf(perigee.ClassUnavailable, "the provider's answer ended before it was finished")
}

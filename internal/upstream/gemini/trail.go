package gemini

import (
	"fmt"
	"time"

	"perigee"
)

// A trail keeps for the record which keys a call has tried, by their places in the configuration. As long as the first of them is
// good, on the connection that it was sent on, there is nothing to tell.
type trail struct {
	upstream *Upstream
	steps    *perigee.Steps
	number   int  // of the key that is tried
	resent   bool // once more, on a new connection
	began    time.Time
	lost     int // how many tries have failed
}

// tries begins to ask with a key.
func (t *trail) tries(k *key, now time.Time) { t.number, t.resent, t.began = k.number, false, now }

// resends says that a connection was lost before anything was received, and that the request is sent once more.
func (t *trail) resends(err error) {
	t.lost++
	t.add(err)
	t.resent, t.began = true, t.upstream.opts.Now()
	t.upstream.opts.Logger.Info("connection lost, request sent again", "upstream", t.upstream.opts.Name, "error", err)
}

// gaveWay says that a key was refused or is used up.
func (t *trail) gaveWay(err error) {
	t.lost++
	t.add(err)
}

// ends says what came of the key that did not give way; a nil err is an answer.
func (t *trail) ends(err error) {
	if t.lost > 0 {
		t.add(err)
	}
}

func (t *trail) add(err error) {
	step := perigee.Step{Upstream: t.upstream.opts.Name, Why: fmt.Sprintf("key %d of %d", t.number, len(t.upstream.keys.keys)),
		Took: t.upstream.opts.Now().Sub(t.began)}
	if t.resent {
		step.Why = "sent again on a new connection"
	}
	if e := perigee.AsError(err); e != nil {
		step.Class, step.Error = e.Class, e.Message
	}
	t.steps.Add(step)
}

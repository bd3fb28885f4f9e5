package api

import (
	"fmt"
	"time"

	"perigee"
)

// A trail records the keys that a call has tried, by their position in the configuration. A call
// that the first key answers on the first connection has no entry, unless it waited for a place.
type trail struct {
	upstream *Upstream
	log      *perigee.CallLog
	number   int  // the current key
	resent   bool // the request was sent again on a new connection
	began    time.Time
	open     bool          // the current attempt has not been recorded
	lost     int           // number of failed attempts
	waited   time.Duration // for a place, before the first attempt
}

// tries starts an attempt with a key.
func (t *trail) tries(k *key, now time.Time) {
	t.number, t.resent, t.began, t.open = k.number, false, now, true
}

// resends records that a connection was lost before any byte was received; the request is sent
// once more.
func (t *trail) resends(err error) {
	t.failed(err)
	t.resent, t.began, t.open = true, t.upstream.opts.Now(), true
	t.upstream.opts.Logger.Info("connection lost, request sent again", "upstream", t.upstream.opts.Name, "error", err)
}

// failed records an attempt that is followed by another one.
func (t *trail) failed(err error) {
	t.lost++
	t.add(err)
}

// ends records the last attempt, unless it has been recorded, or is the only one and did not wait. A
// nil err means success.
func (t *trail) ends(err error) {
	if t.open && (t.lost > 0 || t.waited >= noticeableWait) {
		t.add(err)
	}
}

func (t *trail) add(err error) {
	t.open = false
	step := perigee.Attempt{Upstream: t.upstream.opts.Name, Endpoint: t.upstream.opts.URL,
		Why: fmt.Sprintf("key %d of %d", t.number, len(t.upstream.keys.keys)), Took: t.upstream.opts.Now().Sub(t.began)}
	if t.resent {
		step.Why = "sent again on a new connection"
	}
	if t.waited >= noticeableWait {
		step.Why += fmt.Sprintf(", after %v in the queue for a place", t.waited.Round(time.Millisecond))
		t.waited = 0
	}
	if e := perigee.AsError(err); e != nil {
		step.Class, step.Error = e.Class, e.Message
	}
	t.log.AddAttempt(step)
}

package clientkey

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"perigee"
)

// A counterRig is a RequestCounter that answers as the test says.
type counterRig struct {
	asked int
	last  string // key, n and perMinute of the last question
	wait  time.Duration
	err   error
	done  error // of the context that it was asked with
}

func (c *counterRig) TakeRequests(ctx context.Context, key string, n, perMinute int) (time.Duration, error) {
	c.asked++
	c.last = key + " " + strings.Repeat("|", n) + "/" + strings.Repeat("|", perMinute)
	c.done = ctx.Err()
	return c.wait, c.err
}

// A limitRig has one key, at whose limits calls are let in.
type limitRig struct {
	t      *testing.T
	keys   []*Guarded
	shared SharedLimit
	now    time.Time
	log    bytes.Buffer
}

func newLimitRig(t *testing.T, key Key, counter RequestCounter) *limitRig {
	d := &limitRig{t: t, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	d.shared = SharedLimit{Counter: counter, Logger: slog.New(slog.NewTextHandler(&d.log, nil))}
	key.Name = "laptop"
	d.keys = Guard([]Key{key}, nil)
	return d
}

// admit lets a call in that makes n requests, and ends it at once.
func (d *limitRig) admit(ctx context.Context, n int) error {
	k := d.keys[0]
	if err := k.Acquire(); err != nil {
		return err
	}
	defer k.Release()
	if err := k.TakeRequest(ctx, &d.shared, d.now); err != nil {
		return err
	}
	return k.TakeMore(ctx, &d.shared, n, d.now)
}

func (d *limitRig) mustAdmit(n int) {
	d.t.Helper()
	if err := d.admit(d.t.Context(), n); err != nil {
		d.t.Errorf("%d requests are refused: %v", n, err)
	}
}

func (d *limitRig) mustRefuse(n int, retry time.Duration) {
	d.t.Helper()
	e, ok := errors.AsType[*perigee.Error](d.admit(d.t.Context(), n))
	switch {
	case !ok:
		d.t.Errorf("%d requests are not refused", n)
	case e.Class != perigee.ClassRateLimited || e.Retry.Round(time.Millisecond) != retry:
		d.t.Errorf("got %s: %v, after %v, want %v", e.Class, e, e.Retry, retry)
	}
}

func TestRequestsPerMinute(t *testing.T) {
	d := newLimitRig(t, Key{RPM: 6}, nil)
	for range 6 {
		d.mustAdmit(1)
	}
	d.mustRefuse(1, 10*time.Second)
	d.now = d.now.Add(4 * time.Second)
	d.mustRefuse(1, 6*time.Second)
	d.now = d.now.Add(6 * time.Second)
	d.mustAdmit(1) // after the time of Retry-After, the request is let in
	d.mustRefuse(1, 10*time.Second)
	d.now = d.now.Add(time.Hour)
	for range 6 {
		d.mustAdmit(1)
	}
	d.mustRefuse(1, 10*time.Second)
}

// Times that are no fractions of two must not add up to a little less than what was said.
func TestWhoWaitsAsLongAsWasSaidIsLetIn(t *testing.T) {
	for rpm := 1; rpm <= 97; rpm += 3 {
		d := newLimitRig(t, Key{RPM: rpm}, nil)
		for range rpm {
			d.mustAdmit(1)
		}
		for range 200 {
			e, ok := errors.AsType[*perigee.Error](d.admit(t.Context(), 1))
			if !ok {
				t.Fatalf("rpm %d: one too many", rpm)
			}
			d.now = d.now.Add(e.Retry)
			d.mustAdmit(1)
		}
	}
}

// A call that makes several requests takes as many out of the bucket; one that is refused takes the
// one that it is itself.
func TestSeveralPicturesCountAsSeveralRequests(t *testing.T) {
	d := newLimitRig(t, Key{RPM: 6}, nil)
	d.mustAdmit(4)
	d.mustRefuse(3, 20*time.Second)
	d.mustAdmit(1)
	d.mustRefuse(1, 10*time.Second)
	d.now = d.now.Add(20 * time.Second)
	d.mustRefuse(3, 20*time.Second)
	d.now = d.now.Add(20 * time.Second)
	d.mustAdmit(3) // after the time of Retry-After, the request is let in
	d.mustRefuse(1, 10*time.Second)
	d.now = d.now.Add(time.Minute)
	d.mustAdmit(6)
	d.now = d.now.Add(time.Minute)
	// No time to wait would be true.
	if err := d.admit(t.Context(), 7); perigee.AsError(err).Class != perigee.ClassInvalid {
		t.Errorf("got %v", err)
	}
}

func TestSharedRequestsAreAskedFor(t *testing.T) {
	shared := &counterRig{}
	d := newLimitRig(t, Key{RPM: 3}, shared)
	for range 5 { // it knows better
		d.mustAdmit(1)
	}
	d.mustAdmit(3) // the first before its body was read, two after it
	if shared.asked != 7 || shared.last != "laptop ||/|||" {
		t.Errorf("asked %d times, the last time for %s", shared.asked, shared.last)
	}
	if err := d.admit(t.Context(), 4); perigee.AsError(err).Class != perigee.ClassInvalid || shared.asked != 8 {
		t.Errorf("got %v, and asked %d times", err, shared.asked)
	}
}

func TestKeysWithoutLimitAreNotCounted(t *testing.T) {
	shared := &counterRig{err: errors.New("never asked")}
	d := newLimitRig(t, Key{Concurrency: 1}, shared)
	d.mustAdmit(1)
	if shared.asked != 0 {
		t.Errorf("asked %d times", shared.asked)
	}
}

// Until the bucket has filled, the shared counter is not asked, however often a client tries.
func TestSharedRefusalHoldsUntilItsTime(t *testing.T) {
	shared := &counterRig{wait: 25 * time.Second}
	d := newLimitRig(t, Key{RPM: 6, Concurrency: 1}, shared)
	d.mustRefuse(2, 25*time.Second) // its first one
	d.mustRefuse(1, 25*time.Second)
	d.now = d.now.Add(24 * time.Second)
	d.mustRefuse(1, time.Second)
	d.mustRefuse(2, time.Second)
	if shared.asked != 1 {
		t.Errorf("asked %d times", shared.asked)
	}
	shared.wait = 0
	d.now = d.now.Add(time.Second)
	d.mustAdmit(1) // refused calls do not count as running
	if shared.asked != 2 {
		t.Errorf("asked %d times", shared.asked)
	}
}

// A changed limit is not held against what was said about the one before.
func TestSharedRefusalEndsWithItsLimit(t *testing.T) {
	shared := &counterRig{wait: 50 * time.Second}
	d := newLimitRig(t, Key{RPM: 1}, shared)
	d.mustRefuse(1, 50*time.Second)
	shared.wait = 0
	d.keys = Guard([]Key{{Name: "laptop", RPM: 60}}, d.keys)
	d.mustAdmit(1)
}

func TestWithoutSharedCountTheOwnCounts(t *testing.T) {
	shared := &counterRig{}
	d := newLimitRig(t, Key{RPM: 6}, shared)
	for range 4 {
		d.mustAdmit(1)
	}
	shared.err = errors.New("the database is away")
	d.mustAdmit(1) // what was let through before has been taken out of the own bucket
	d.mustAdmit(1)
	d.mustRefuse(1, 10*time.Second)
	if shared.asked != 5 {
		t.Errorf("asked %d times, want once without an answer", shared.asked)
	}
	d.now = d.now.Add(countAgain)
	d.mustRefuse(1, 5*time.Second)
	if shared.asked != 6 {
		t.Errorf("asked %d times, want once more", shared.asked)
	}
	shared.err = nil
	d.now = d.now.Add(countAgain)
	d.mustAdmit(1)
	d.mustAdmit(1) // the other one decides again
	if shared.asked != 8 {
		t.Errorf("asked %d times", shared.asked)
	}
	if warned, told := strings.Count(d.log.String(), "this one counts its own"),
		strings.Count(d.log.String(), "over all replicas again"); warned != 1 || told != 1 {
		t.Errorf("the log has %d and %d lines about it:\n%s", warned, told, d.log.String())
	}
}

// That a client has left says nothing about the database.
func TestClientThatLeavesDoesNotSpoilTheCount(t *testing.T) {
	shared := &counterRig{}
	d := newLimitRig(t, Key{RPM: 6}, shared)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.admit(ctx, 1); err != nil || shared.done != nil {
		t.Errorf("got %v, asked with %v", err, shared.done)
	}
}

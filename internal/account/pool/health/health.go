// Package health scores accounts for hybrid selection: by how well their latest calls went, how many calls they had lately, how
// long they were idle, and how much quota they have left.
package health

import (
	"time"

	"perigee/internal/lib/steadyclock"
)

// The points of hybrid selection.
const (
	start  = 70
	most   = 100
	least  = 50 // with less an account is passed over while another is usable
	regain = 2  // for each hour
	Served = 1
	Limit  = -10 // after a limit
	Fault  = -20 // after other trouble of the account

	loadCall = 10 * time.Second // the load that one call adds; load falls as time goes on
	loadMost = 50 * loadCall

	longestIdle = time.Hour

	weightHealth = 2   // for each point of health
	weightLoad   = 5   // for each hundredth of loadMost that is free
	weightIdle   = 0.1 // for each second without a call
	weightQuota  = 3   // for each hundredth of the quota

	unfit = 10000 // more than there are points

	// A call without a session stays with the last account unless another one is better by so much.
	Stickiness = 150
)

// Unknown is the fraction of a quota that counts when the quota is not known.
const Unknown = 0.5

// A Health is what hybrid selection scores an account by. It recovers as time goes on.
type Health struct {
	points   float64
	pointsAt steadyclock.Instant
	idleAt   steadyclock.Instant // when its load is 0
	usedAt   steadyclock.Instant
}

// New returns the health of an account that was not used yet.
func New(now steadyclock.Instant) Health { return Health{points: start, pointsAt: now} }

func (h *Health) now(now steadyclock.Instant) float64 {
	return min(most, h.points+regain*float64((now-h.pointsAt)/time.Hour))
}

// load is how long the account takes to recover from its latest calls.
func (h *Health) load(now steadyclock.Instant) time.Duration { return max(0, h.idleAt-now) }

// Recover adds points, which may be negative.
func (h *Health) Recover(points float64, now steadyclock.Instant) {
	h.points, h.pointsAt = max(0, min(most, h.now(now)+points)), now
}

// Charge adds the load of a call.
func (h *Health) Charge(now steadyclock.Instant) {
	h.idleAt = now + min(h.load(now)+loadCall, loadMost)
	h.usedAt = now
}

// Uncharge takes back the load of a call that was not answered.
func (h *Health) Uncharge(now steadyclock.Instant) { h.idleAt = now + max(0, h.load(now)-loadCall) }

// Fit reports whether the account is to be chosen while another is usable.
func (h *Health) Fit(now steadyclock.Instant) bool {
	return h.now(now) >= least && h.load(now) <= loadMost-loadCall
}

// Score is the worth of the account in hybrid selection, with what is left of its quota. Unfit accounts come last.
func (h *Health) Score(quota float64, now steadyclock.Instant) float64 {
	points := weightHealth*h.now(now) + weightLoad*100*(1-float64(h.load(now))/float64(loadMost)) +
		weightIdle*min(now-h.usedAt, longestIdle).Seconds() + weightQuota*100*quota
	if !h.Fit(now) {
		return points - unfit
	}
	return points
}

package pool

import (
	"time"

	"perigee/internal/lib/steadyclock"
)

// The points of hybrid selection.
const (
	start        = 70
	most         = 100
	least        = 50 // with less an account is passed over while another is usable
	regain       = 2  // for each hour
	pointsServed = 1
	pointsLimit  = -10 // after a limit
	pointsFault  = -20 // after another failure of the account

	loadCall = 10 * time.Second // the load that one call adds; load falls over time
	loadMost = 50 * loadCall

	longestIdle = time.Hour

	weightHealth = 2   // for each point of health
	weightLoad   = 5   // for each hundredth of loadMost that is free
	weightIdle   = 0.1 // for each second without a call
	weightQuota  = 3   // for each hundredth of the quota

	unfit = 10000 // more than there are points

	// A call without a session stays with the last account unless another one is better by so much.
	stickiness = 150
)

// quotaUnknown is the fraction of a quota that counts when the quota is not known.
const quotaUnknown = 0.5

// A health is the basis of an account's score in hybrid selection. It recovers over time.
type health struct {
	points   float64
	pointsAt steadyclock.Instant
	idleAt   steadyclock.Instant // when its load is 0
	usedAt   steadyclock.Instant
}

// newHealth returns the health of an account that was not used yet.
func newHealth(now steadyclock.Instant) health { return health{points: start, pointsAt: now} }

func (h *health) now(now steadyclock.Instant) float64 {
	return min(most, h.points+regain*float64((now-h.pointsAt)/time.Hour))
}

// load returns how long the account takes to recover from its latest calls.
func (h *health) load(now steadyclock.Instant) time.Duration { return max(0, h.idleAt-now) }

// Recover adds points, which may be negative.
func (h *health) Recover(points float64, now steadyclock.Instant) {
	h.points, h.pointsAt = max(0, min(most, h.now(now)+points)), now
}

// Charge adds the load of a call.
func (h *health) Charge(now steadyclock.Instant) {
	h.idleAt = now + min(h.load(now)+loadCall, loadMost)
	h.usedAt = now
}

// Uncharge takes back the load of a call that was not answered.
func (h *health) Uncharge(now steadyclock.Instant) { h.idleAt = now + max(0, h.load(now)-loadCall) }

// Fit reports whether the account is to be chosen while another is usable.
func (h *health) Fit(now steadyclock.Instant) bool {
	return h.now(now) >= least && h.load(now) <= loadMost-loadCall
}

// Score returns the account's score in hybrid selection, including its remaining quota. Unfit
// accounts come last.
func (h *health) Score(quota float64, now steadyclock.Instant) float64 {
	points := weightHealth*h.now(now) + weightLoad*100*(1-float64(h.load(now))/float64(loadMost)) +
		weightIdle*min(now-h.usedAt, longestIdle).Seconds() + weightQuota*100*quota
	if !h.Fit(now) {
		return points - unfit
	}
	return points
}

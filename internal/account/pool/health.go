package pool

import "time"

// The points of hybrid selection.
const (
	startPoints   = 70
	maxPoints     = 100
	fitPoints     = 50 // with less an account is passed over while another is usable
	pointsPerHour = 2
	pointsServed  = 1
	pointsLimit   = -10 // after a limit
	pointsFault   = -20 // after another failure of the account

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
	pointsAt instant
	idleAt   instant // when its load is 0
	usedAt   instant
}

// newHealth returns the health of an account that was not used yet.
func newHealth(now instant) health { return health{points: startPoints, pointsAt: now} }

func (h *health) pointsNow(now instant) float64 {
	return min(maxPoints, h.points+pointsPerHour*float64((now-h.pointsAt)/time.Hour))
}

// load returns how long the account takes to recover from its latest calls.
func (h *health) load(now instant) time.Duration { return max(0, h.idleAt-now) }

// addPoints adds points, which may be negative.
func (h *health) addPoints(points float64, now instant) {
	h.points, h.pointsAt = max(0, min(maxPoints, h.pointsNow(now)+points)), now
}

// charge adds the load of a call.
func (h *health) charge(now instant) {
	h.idleAt = now + min(h.load(now)+loadCall, loadMost)
	h.usedAt = now
}

// uncharge takes back the load of a call that was not answered.
func (h *health) uncharge(now instant) { h.idleAt = now + max(0, h.load(now)-loadCall) }

// fit reports whether the account is to be chosen while another is usable.
func (h *health) fit(now instant) bool {
	return h.pointsNow(now) >= fitPoints && h.load(now) <= loadMost-loadCall
}

// score returns the account's score in hybrid selection, including its remaining quota. Unfit
// accounts come last.
func (h *health) score(quota float64, now instant) float64 {
	points := weightHealth*h.pointsNow(now) + weightLoad*100*(1-float64(h.load(now))/float64(loadMost)) +
		weightIdle*min(now-h.usedAt, longestIdle).Seconds() + weightQuota*100*quota
	if !h.fit(now) {
		return points - unfit
	}
	return points
}

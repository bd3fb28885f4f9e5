package record

import "perigee"

// estimate completes the usage of an answer that was cut off before the provider reported its
// usage. Otherwise a client that disconnects just before the end of each answer would use no
// tokens.
func (o *Observation) estimate() {
	usage := &o.call.Usage
	if failed := perigee.AsError(o.err); failed != nil && *usage == (perigee.Usage{}) {
		*usage = failed.Usage
	}
	asked := o.asked
	if asked == 0 && usage.Input == 0 {
		asked = o.request.EstimateTokens() // the request was not released
	}
	before := *usage
	*usage = o.received.Estimate(before, asked)
	o.estimated = *usage != before
}

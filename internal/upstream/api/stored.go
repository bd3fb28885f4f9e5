package api

import (
	"context"

	"perigee"
	"perigee/internal/lib/wire"
)

var _ perigee.ResponseCaller = (*Upstream)(nil)

// CallResponse sends a request about a response that the provider stores, with the key that a list
// would be asked for with.
func (u *Upstream) CallResponse(ctx context.Context, r *perigee.ResponseCall, answer func(perigee.RawAnswer) error) error {
	if u.responses == "" {
		return perigee.Passthrough{}.CallResponse(ctx, r, answer)
	}
	ctx, watchdog := wire.Watch(ctx, u.opts.FirstByte)
	defer watchdog.Stop()
	out := outgoing{target: u.opts.URL + u.responses + r.Path, method: r.Method,
		header: clientHeader(r.Header, u.clientHeaders), dialect: perigee.DialectOpenAIResponses}
	resp, err := u.do(ctx, &out, quota{}, &trail{upstream: u})
	if err != nil {
		return u.explain(ctx, "", err)
	}
	defer resp.Body.Close()
	return answer(perigee.RawAnswer{Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type"),
		Header: u.answerHeader(&out, resp), Body: wire.Watched(resp.Body, watchdog, u.opts.Idle)})
}

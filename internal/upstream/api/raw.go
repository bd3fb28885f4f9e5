package api

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"perigee"
	"perigee/internal/lib/wire"
)

var _ perigee.RawSender = (*Upstream)(nil)

// SendRaw sends a recorded request with the key that a call would use now.
func (u *Upstream) SendRaw(ctx context.Context, r *perigee.RawRequest, answer func(perigee.RawAnswer) error) error {
	if u.raw == nil {
		return perigee.Passthrough{}.SendRaw(ctx, r, answer)
	}
	if err := u.offers(r.Model); err != nil {
		return err
	}
	if err := u.enter(ctx, r.Model, &trail{}); err != nil {
		return err
	}
	defer u.leave()
	body := wire.NewBody(r.Sent).ShowTo(r.Log)
	defer body.Wait()
	ctx, watchdog := wire.Watch(ctx, u.opts.FirstByte)
	defer watchdog.Stop()
	q := quota{model: r.Model}
	if r.Operation != perigee.OperationGenerate {
		q.operation = r.Operation
	}
	req, err := u.request(ctx, http.MethodPost, u.raw(u.opts.URL, r), nil, u.keys.order(q, u.opts.Now())[0])
	if err != nil {
		return u.explain(ctx, r.Model, err)
	}
	resp, err := body.Do(u.client, req)
	if err != nil {
		return u.explain(ctx, r.Model, err)
	}
	defer resp.Body.Close()
	content := wire.Watched(resp.Body, watchdog, u.opts.Idle)
	if resp.StatusCode != http.StatusOK {
		explanation, _ := io.ReadAll(io.LimitReader(content, maxError))
		content = bytes.NewReader(u.keys.clean(explanation)) // some providers repeat the key that they refuse
	}
	return answer(perigee.RawAnswer{Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type"), Body: content})
}

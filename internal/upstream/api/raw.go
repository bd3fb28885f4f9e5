package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"

	"perigee"
	"perigee/internal/lib/rawjson"
	"perigee/internal/lib/wire"
)

var _ perigee.RawSender = (*Upstream)(nil)

// SendRaw sends a recorded request with the key that a call would use now.
func (u *Upstream) SendRaw(ctx context.Context, r *perigee.RawRequest, answer func(perigee.RawAnswer) error) error {
	body := wire.NewBody(r.Sent).ShowTo(r.Log)
	defer body.Wait()
	ctx, watchdog := wire.Watch(ctx, u.opts.FirstByte)
	defer watchdog.Stop()
	method := rawMethod(r)
	target := u.opts.URL + "/v1beta/models/" + url.PathEscape(r.Model) + ":" + method
	req, err := u.request(ctx, http.MethodPost, target, u.keys.order(quotaOf(r.Model, method), u.opts.Now())[0])
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
		content = bytes.NewReader(u.keys.secret.Bytes(explanation)) // some providers repeat the key that they refuse
	}
	return answer(perigee.RawAnswer{Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type"), Body: content})
}

// rawMethod returns the API method that a recorded request was sent to.
func rawMethod(r *perigee.RawRequest) string {
	switch {
	case r.Operation == perigee.OperationCount:
		return "countTokens"
	case r.Operation == perigee.OperationEmbed && isBatch(r.Sent):
		return "batchEmbedContents"
	case r.Operation == perigee.OperationEmbed:
		return "embedContent"
	}
	return generateMethod(r.Stream)
}

// isBatch reports whether a request embeds several texts.
func isBatch(body []byte) bool {
	_, _, ok := rawjson.Find(body, "requests")
	return ok
}

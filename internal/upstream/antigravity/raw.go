package antigravity

import (
	"bytes"
	"context"
	"net/http"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/adapt/models"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/rawjson"
	"perigee/internal/lib/wire"
)

var _ perigee.RawSender = (*Upstream)(nil)

// SendRaw sends a recorded request to the first endpoint, with the account that a call would get
// now. It replaces the project in the envelope with the account's project, because the gateway
// answers "not found" for any other.
func (u *Upstream) SendRaw(ctx context.Context, r *perigee.RawRequest, answer func(perigee.RawAnswer) error) error {
	if r.Operation != perigee.OperationGenerate {
		return perigee.Errorf(perigee.ClassUnimplemented, "upstream %s sends only requests for an answer as they are recorded", u.opts.Name).
			WithHint("replay without raw")
	}
	want := pool.Request{Model: r.Model, Family: models.Of(r.Model).Family, OnTokenFailure: u.tokenFailures(r.Log)}
	lease, err := u.opts.Accounts.Acquire(want).Next(ctx)
	if err != nil {
		return u.callError(ctx, err)
	}
	v := &providererr.Diagnosis{Kind: kindCanceled, Scope: providererr.ScopeNone, Error: perigee.Errorf(perigee.ClassCanceled, "the call was canceled")}
	defer func() { lease.Done(v) }()
	token, err := lease.Token(ctx)
	if err != nil {
		v = &providererr.Diagnosis{Kind: kindNoAccount, Scope: providererr.ScopeNone, Error: u.callError(ctx, err)}
		return v.Error
	}
	leased := lease.Account()
	body := wire.NewBody(withProject(r.Sent, leased.Project)).ShowTo(r.Log)
	defer body.Wait()
	ctx, watchdog := wire.Watch(ctx, u.opts.FirstByte)
	defer watchdog.Stop()
	resp, failed := u.send(ctx, u.hosts.content(leased.CLI)[0], streamMethod, token, body)
	if v = failed; v != nil {
		return v.Error
	}
	defer resp.Body.Close()
	content := wire.Watched(resp.Body, watchdog, u.opts.Idle)
	if resp.StatusCode != http.StatusOK {
		var explanation []byte
		v, explanation = u.diagnose(resp, content, token)
		content = bytes.NewReader(explanation)
	}
	return answer(perigee.RawAnswer{Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type"), Account: leased.Email, Body: content})
}

// withProject replaces the project in an envelope.
func withProject(envelope []byte, project string) []byte {
	start, end, ok := rawjson.Find(envelope, "project")
	if !ok {
		return envelope
	}
	return rawjson.Splice(envelope, rawjson.Edit{Start: start, End: end, New: rawjson.AppendString(nil, project)})
}

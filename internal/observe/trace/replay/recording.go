package replay

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/dialect/gemini"
	"perigee/internal/lib/rawjson"
	"perigee/internal/lib/redact"
	"perigee/internal/observe/trace"
)

// A recording is a call that was traced.
type recording struct {
	*trace.Trace
	call *perigee.Call // nil if the store no longer has it
	body []byte        // the client's request, after repeatable
	sent []byte        // the last request to a provider, after sendable
	last trace.Try     // the try of that request, after sendable
}

func (r *recording) id() string { return r.Meta.ID }

// idOr returns the ID, or the name that no recording was found for.
func (r *recording) idOr(name string) string {
	if r == nil {
		return name
	}
	return r.id()
}

// repeatable reads the request, and returns an error if it cannot be sent again.
func (r *recording) repeatable() (err error) {
	if r.Meta.Dialect == perigee.DialectCloudCode {
		return perigee.Errorf(perigee.ClassUnimplemented, "call %s was made by a language server itself, and cannot be sent again", r.id()).
			WithHint("choose a call of a client; `perigee trace list` shows the client of each")
	}
	if _, err := r.Read(trace.MetaName); r.Meta.Path == "" && errors.Is(err, fs.ErrNotExist) {
		return perigee.Errorf(perigee.ClassNotFound, "the trace of call %s is not complete: it cannot be sent again", r.id()).
			WithHint("perigee trace list shows other calls; make the call again")
	}
	if r.Meta.Dialect == perigee.DialectMCP || r.Meta.Path == "" {
		return perigee.Errorf(perigee.ClassUnimplemented, "call %s is an ask of an MCP client, which cannot be sent again", r.id()).
			WithHint("ask again in the client")
	}
	r.body, err = r.readBody(trace.ClientRequestName)
	return err
}

// readBody reads a body that has to be complete.
func (r *recording) readBody(name string) ([]byte, error) {
	if why := r.Meta.Truncated[name]; why != "" {
		return nil, perigee.Errorf(perigee.ClassUnavailable, "%s of call %s is not complete (%s): it cannot be sent again", name, r.id(), why)
	}
	body, err := r.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		missing := perigee.Errorf(perigee.ClassNotFound, "call %s has no recorded request: it cannot be sent again", r.id())
		if r.Meta.ReplayOf != "" { // a raw replay has no request of a client
			return nil, missing.WithHint("it repeats call %s: replay that one", r.Meta.ReplayOf)
		}
		return nil, missing.WithHint("with traces.bodies: true in the configuration, requests are recorded from now on")
	}
	return body, err
}

// warning describes how the request differs from the recorded one.
func (r *recording) warning(raw bool) string {
	body := r.body
	if raw {
		body = r.sent
	}
	if bytes.Contains(body, []byte(redact.Mark)) {
		return "the recorded request has " + redact.Mark + " in place of a secret, and is sent with it"
	}
	return ""
}

// request returns the request of the client once more, for another model if one is given.
func (r *recording) request(ctx context.Context, model string, replay perigee.Replay) (*http.Request, error) {
	body, target := r.body, r.Meta.Path
	if model != "" {
		var err error
		if body, target, err = r.forModel(model); err != nil {
			return nil, err
		}
	}
	return r.withBody(ctx, target, body, replay)
}

// withBody returns the request with another body.
func (r *recording) withBody(ctx context.Context, target string, body []byte, replay perigee.Replay) (*http.Request, error) {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, perigee.Errorf(perigee.ClassInternal, "the path of call %s cannot be read: %w", r.id(), err)
	}
	query := u.Query()
	for name, values := range query {
		if name == "key" || slices.ContainsFunc(values, isRedacted) {
			query.Del(name)
		}
	}
	u.RawQuery = query.Encode()
	// A request over a WebSocket is one for POST as well.
	req, err := http.NewRequestWithContext(perigee.WithReplay(ctx, replay), http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range r.Meta.Headers {
		if !ownHeader(name) && !slices.ContainsFunc(values, isRedacted) {
			req.Header[name] = slices.Clone(values)
		}
	}
	req.Header.Set("Content-Type", "application/json")
	req.RequestURI, req.Host, req.RemoteAddr = u.RequestURI(), "perigee", "replay"
	return req, nil
}

func isRedacted(value string) bool {
	return strings.Contains(value, redact.Mark) || strings.Contains(value, redact.Value)
}

// ownHeaders are about the connection or the encoding of the first request, and not about its
// content.
var ownHeaders = []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Cookie", "Host", "Origin", "Referer", "Connection", "Upgrade",
	"Content-Length", "Content-Encoding", "Transfer-Encoding", "Te", "Trailer", "Expect", "Accept-Encoding", "Keep-Alive"}

func ownHeader(name string) bool {
	name = http.CanonicalHeaderKey(name)
	return slices.Contains(ownHeaders, name) || strings.HasPrefix(name, "Sec-") || strings.HasPrefix(name, "Proxy-")
}

// forModel returns body and path of the request for another model: Gemini's dialect names it in the
// path, the other ones in the body.
func (r *recording) forModel(model string) (body []byte, target string, err error) {
	if r.Meta.Dialect == perigee.DialectGemini {
		path, query, _ := strings.Cut(r.Meta.Path, "?")
		base, method := path[:strings.LastIndex(path, "/")+1], path[strings.LastIndexByte(path, ':')+1:]
		if target = base + url.PathEscape(model) + ":" + method; query != "" {
			target += "?" + query
		}
		body, err = gemini.RewriteModel(r.body, model)
		return body, target, err
	}
	if err := rawjson.Check(r.body); err != nil {
		return nil, "", perigee.Errorf(perigee.ClassInvalid, "the request of call %s is not JSON, so its model cannot be changed: %w", r.id(), err)
	}
	name := rawjson.AppendString(nil, model)
	if start, end, ok := rawjson.Find(r.body, "model"); ok {
		return rawjson.Splice(r.body, rawjson.Edit{Start: start, End: end, New: name}), r.Meta.Path, nil
	}
	member := slices.Concat([]byte(`{"model":`), name, []byte(","))
	if start := bytes.IndexByte(r.body, '{'); start >= 0 && start < len(r.body)-1 {
		if rest := bytes.TrimLeft(r.body[start+1:], " \t\r\n"); bytes.HasPrefix(rest, []byte("}")) {
			member = member[:len(member)-1]
		}
		return slices.Concat(member, r.body[start+1:]), r.Meta.Path, nil
	}
	return nil, "", perigee.Errorf(perigee.ClassInvalid, "the request of call %s is not an object, so it has no model", r.id())
}

// sendable reads the last request to a provider, and returns an error if it cannot be sent again.
func (r *recording) sendable(change Change) (err error) {
	if change.Model != "" {
		return perigee.Errorf(perigee.ClassInvalid, "raw sends the recorded request as it is, so its model cannot be changed").
			WithHint("leave out raw or model")
	}
	for i := len(r.Meta.Tries) - 1; i >= 0; i-- {
		if r.Meta.Tries[i].Request != "" {
			r.last = r.Meta.Tries[i]
			break
		}
	}
	if r.last.Request == "" {
		return perigee.Errorf(perigee.ClassNotFound, "call %s has no recorded request to a provider", r.id()).WithHint("replay it without raw")
	}
	if r.sent, err = r.readBody(r.last.Request); err != nil {
		return err
	}
	if err := rawjson.Check(r.sent); err != nil {
		return perigee.Errorf(perigee.ClassInvalid, "%s of call %s is not JSON: %w", r.last.Request, r.id(), err)
	}
	return nil
}

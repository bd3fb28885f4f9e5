package dashboard

import (
	"encoding/json"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/observe/dashboard/pages"
	"perigee/internal/observe/trace"
	"perigee/internal/observe/trace/replay"
	"perigee/internal/server/admin"
	"perigee/internal/server/mount"
)

// Bounds of the parts of a trace that the page of a call shows. Files have their whole content.
const maxRead = 16 << 20 // bytes of a file that are looked at

// shown are the files of a trace that the page shows something of. Of all further files it shows
// the size only.
var shown = []string{trace.MetaName, trace.ClientRequestName, trace.EventsName}

// call shows the story of a call, a file of its trace, or the search for its smallest request.
func (v *visit) call() error {
	name, file, wantsFile := strings.Cut(mount.Wildcard(v.r), "/files/")
	name, wantsSearch := strings.CutSuffix(name, "/shrink")
	found, err := admin.FindCall(v.ctx, v.opts.Calls, name)
	switch {
	case err != nil:
		return err
	case wantsFile:
		return v.file(found.ID, file)
	case wantsSearch:
		return v.search(found)
	}
	c := v.clean(*found)
	page := pages.Call{Call: c, Token: v.session.FormToken(), ReplayOf: c.ReplayOf}
	v.readTrace(&page)
	// A page that loads itself again counts as read once.
	if again := v.session.Again(c.ID); !again || !page.Follows() {
		v.audit(v.ctx, perigee.AuditEntry{Action: perigee.AuditTraceRead, Object: c.ID}, nil)
	}
	if s, ok := v.searches.of(c.ID); ok {
		page.Search = &s
	}
	return v.render(200, "Call "+pages.ShortID(c.ID), "calls", page)
}

// readTrace adds the contents of the trace directory.
func (v *visit) readTrace(page *pages.Call) {
	t, err := v.opts.Trace(page.Call.ID)
	if err != nil {
		page.Gone = true
		if perigee.AsError(err).Class != perigee.ClassNotFound {
			v.opts.Logger.Warn("a trace cannot be read", "call", page.Call.ID, "error", err)
		}
		return
	}
	malformed := false // the request is not JSON, and cannot be shrunk
	for _, name := range t.Files() {
		text, size, err := read(t, name)
		if err != nil {
			continue
		}
		page.Files = append(page.Files, pages.TraceFile{Name: name, Bytes: size})
		switch name {
		case trace.MetaName:
			var m trace.Meta
			if json.Unmarshal(text, &m) == nil {
				page.ReplayOf, page.Tries = m.ReplayOf, m.Tries
			}
		case trace.ClientRequestName:
			page.CanReplay = true
			malformed = text != nil && !json.Valid(text)
			page.Request = pages.ReadConversation(text, v.opts.Redact)
		case trace.EventsName:
			page.Answer = pages.ReadAnswer(text, page.Call.Duration, v.opts.Redact)
		}
	}
	page.CanShrink = page.CanReplay && !malformed && replay.Shrinkable(&page.Call)
}

// read returns the size of a file, and its content if the page shows some of it.
func read(t Trace, name string) (text []byte, size int64, err error) {
	file, size, err := t.OpenFile(name)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = file.Close() }()
	if slices.Contains(shown, name) && size <= maxRead {
		text, err = io.ReadAll(io.LimitReader(file, maxRead))
	}
	return text, size, err
}

// file sends a file of a trace as text.
func (v *visit) file(id, name string) error {
	t, err := v.opts.Trace(id)
	if err != nil || !slices.Contains(t.Files(), name) {
		return perigee.Errorf(perigee.ClassNotFound, "this call has no file %q", mount.Shorten(name)).
			WithHint("traces.keep bounds how long files are kept")
	}
	content, _, err := t.OpenFile(name)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	v.audit(v.ctx, perigee.AuditEntry{Action: perigee.AuditTraceRead, Object: id, Detail: name}, nil)
	setHeaders(v.w.Header())
	v.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	v.w.WriteHeader(http.StatusOK)
	if v.r.Method != http.MethodHead {
		_ = v.opts.Copy(v.w, content) // the client may have disconnected
	}
	return nil
}

// actOnCall sends a call again, or looks for its smallest request.
func (v *visit) actOnCall() error {
	name, act := path.Split(mount.Wildcard(v.r))
	if act != "replay" && act != "shrink" {
		return v.missing()
	}
	found, err := admin.FindCall(v.ctx, v.opts.Calls, strings.TrimSuffix(name, "/"))
	switch {
	case err != nil:
		return err
	case act == "shrink":
		return v.shrink(found)
	}
	return v.replay(found)
}

// replay sends the call again and shows the new one.
func (v *visit) replay(found *perigee.Call) error {
	id, err := v.opts.Replay(v.ctx, found.ID)
	if err != nil {
		v.session.SetNotice("The call was not sent again: " + v.opts.Redact(err.Error()))
		return v.redirect("/dashboard/calls/" + found.ID)
	}
	if id == "" {
		v.session.SetNotice("The call is being sent again, and appears here when it begins.")
		return v.redirect("/")
	}
	v.session.SetNotice("The call was sent again. This is the new one.")
	return v.redirect("/dashboard/calls/" + id)
}

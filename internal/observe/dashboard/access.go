package dashboard

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/pages"
	"perigee/internal/server/mount"
	"perigee/internal/store/audit"
)

// TicketPath is where the owner gets a ticket.
const TicketPath = "/v1/dashboard/ticket"

// A Ticket is a link to the dashboard that signs in the browser that opens it first.
type Ticket struct {
	URL     string    `json:"url"`
	Expires time.Time `json:"expires_at"`
}

// newTicket answers POST /v1/dashboard/ticket.
func (d *Dashboard) newTicket(r *http.Request) (t Ticket, err error) {
	base, err := browserURL(d.opts.Status().Listen)
	if err != nil {
		return t, err
	}
	expires := d.opts.Now().Add(TicketLife)
	return Ticket{URL: base + "/?ticket=" + d.opts.Sessions.NewTicket().Reveal(), Expires: expires.UTC()}, nil
}

// browserURL returns the base URL for a browser on this machine of an address that perigee listens
// on.
func browserURL(listen string) (string, error) {
	u, err := url.Parse(listen)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", perigee.Errorf(perigee.ClassUnimplemented, "a browser cannot open %s", listen).
			WithHint("set listen to an address with a port")
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
		host := "127.0.0.1"
		if ip.To4() == nil && !strings.Contains(u.Hostname(), ".") {
			host = "::1"
		}
		u.Host = net.JoinHostPort(host, u.Port())
	}
	return u.Scheme + "://" + u.Host, nil
}

// ServeHome answers GET / of a browser: it exchanges a ticket, or shows the home page.
func (d *Dashboard) ServeHome(w http.ResponseWriter, r *http.Request) error {
	ticket := r.URL.Query().Get("ticket")
	switch {
	case !r.URL.Query().Has("ticket"):
		return d.page((*visit).home)(w, r)
	case r.Method == http.MethodHead: // previews of links ask so, and must not spend it
		if d.opts.Sessions.IsTicket(ticket) {
			setHeaders(w.Header())
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			return nil
		}
		return d.unauthorized(w, r, true)
	}
	session, ok := d.opts.Sessions.Exchange(ticket)
	d.auditSignIn(r, ok)
	if !ok {
		return d.unauthorized(w, r, true)
	}
	http.SetCookie(w, session.Cookie(r.TLS != nil))
	return d.write(w, r, http.StatusOK, pages.Frame{Title: "Signed in"}, pages.Welcome{})
}

// IsHome reports whether a request for / is for the dashboard: programs that look at the base URL
// get something else.
func (d *Dashboard) IsHome(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html") || r.URL.Query().Has("ticket")
}

func (d *Dashboard) auditSignIn(r *http.Request, ok bool) {
	ctx := perigee.WithActor(r.Context(), actorOf(r))
	if ok {
		_ = d.opts.Audit.Record(ctx, perigee.AuditEntry{Action: perigee.AuditDashboardSignIn, Result: perigee.AuditResultOK})
		return
	}
	d.opts.Audit.Refused(ctx, perigee.AuditEntry{Action: perigee.AuditDashboardSignIn, Object: "GET /",
		Detail: "the ticket is spent, too old or wrong", Result: string(perigee.ClassUnauthenticated)})
}

// actorOf returns the actor of a browser's request.
func actorOf(r *http.Request) perigee.Actor {
	from := r.RemoteAddr
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	return perigee.Actor{Kind: perigee.ActorCookie, From: from, Call: mount.CallOf(r).ID}
}

// page returns a handler that shows a page to browsers that are signed in.
func (d *Dashboard) page(show func(*visit) error) mount.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v := d.visit(w, r)
		if v == nil {
			return d.unauthorized(w, r, false)
		}
		if err := show(v); err != nil {
			return v.fail(err)
		}
		return nil
	}
}

// visit returns the visit of a request, or nil if the browser is not signed in.
func (d *Dashboard) visit(w http.ResponseWriter, r *http.Request) *visit {
	found := d.opts.Sessions.Find(r)
	if found == nil {
		return nil
	}
	return &visit{Dashboard: d, w: w, r: r, ctx: perigee.WithActor(r.Context(), actorOf(r)), session: found, now: d.opts.Now()}
}

// unauthorized answers with the page that explains how to sign in.
func (d *Dashboard) unauthorized(w http.ResponseWriter, r *http.Request, spent bool) error {
	w.Header().Set("X-Perigee-Class", string(perigee.ClassUnauthenticated))
	return d.write(w, r, http.StatusUnauthorized, pages.Frame{Title: "Sign in"}, pages.SignIn{Spent: spent})
}

// maxForm is how large a form may be. Its largest part is the token.
const maxForm = 16 << 10

// sameOrigin refuses requests that the pages of other origins have caused.
var sameOrigin = http.NewCrossOriginProtection()

// act returns a handler for a form of a page. The request needs a session, the token of the
// session's forms, and must come from a page of this origin.
func (d *Dashboard) act(do func(*visit) error) mount.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v := d.visit(w, r)
		if v == nil {
			return d.unauthorized(w, r, false)
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if sameOrigin.Check(r) != nil || r.ParseForm() != nil || !v.session.IsFormToken(r.PostForm.Get("token")) {
			return v.fail(perigee.Errorf(perigee.ClassForbidden, "this form is not from this dashboard, or is too old").
				WithHint("reload the page and try again"))
		}
		if err := do(v); err != nil {
			return v.fail(err)
		}
		return nil
	}
}

// signOut ends the session.
func (v *visit) signOut() error {
	v.opts.Sessions.End(v.session)
	http.SetCookie(v.w, NoCookie(v.r.TLS != nil))
	return v.redirect("/")
}

// audit records an act of the visit.
func (v *visit) audit(ctx context.Context, e perigee.AuditEntry, err error) {
	e.Result = audit.ResultOf(err)
	_ = v.opts.Audit.Record(ctx, e)
}

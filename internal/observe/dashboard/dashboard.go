// Package dashboard serves the pages at / and /dashboard/: open calls, calls and their stories,
// accounts, usage, models, set-up of clients, configuration and state. It collects the data for
// package pages, and has the style sheet and the script in static; nothing is loaded from
// elsewhere. The pages work without the script, which adds live updates and copy buttons.
//
// All text of clients and providers is untrusted. It reaches a page only through package pages,
// after Options.Redact.
package dashboard

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/pages"
	"perigee/internal/observe/live"
	"perigee/internal/observe/trace/replay"
	"perigee/internal/server/connect"
	"perigee/internal/server/mount"
	"perigee/internal/store/config"
)

// Options are the dependencies of the pages. All of them are required, except for Zone.
type Options struct {
	Version  string
	Started  time.Time // of the process
	Now      func() time.Time
	Zone     *time.Location // of the times on the pages; nil means the system's
	Logger   *slog.Logger
	Sessions *Sessions
	// Redact replaces secrets in texts of clients and providers.
	Redact func(text string) string
	// Copy copies a file without secrets.
	Copy func(to io.Writer, from io.Reader) error

	Control     func() perigee.Control // audits changes
	Calls       perigee.CallReader
	Usage       perigee.UsageReader
	Live        *live.Hub
	Status      func() perigee.DaemonStatus
	Unready     func() []string        // why calls cannot be answered now
	Upstreams   func() []UpstreamState // in force, in the order of the configuration
	Langservers func() []perigee.LangserverRow
	Windows     func(ctx context.Context) ([]Window, error) // editor windows with the extension
	Config      func() *config.Loaded                       // in force
	Store       func(ctx context.Context) (perigee.StoreReport, error)
	Warnings    func() []Warning // the last ones of the log, newest first
	CA          func() []Fact    // about the certificate authority of interception
	Audit       AuditLog

	// Trace opens the trace directory of a call. If there is none, the error is of ClassNotFound.
	Trace func(id string) (Trace, error)
	// Replay sends a call again, and returns the ID of the new one, or "" if it is not known yet.
	Replay func(ctx context.Context, id string) (string, error)
	// Shrink looks for the smallest request that fails as a call did, and returns when it has
	// ended. It calls progress after calls. It ends when ctx or the daemon does.
	Shrink func(ctx context.Context, id string, progress func(replay.Progress)) (*replay.Shrunk, error)
	// Clients returns how each client is set up for a base URL, with or without a key.
	Clients func(base string, needsKey bool) []Client
	// ClientStates returns the clients on this machine by name, and whether their settings have a
	// base URL.
	ClientStates func(base string) map[string]connect.Status
	// PriceDate is the date of the price list; empty if there is none.
	PriceDate func() string
}

// A Trace is the directory of a call.
type Trace interface {
	Files() []string
	OpenFile(name string) (file io.ReadCloser, size int64, err error)
}

// An AuditLog records administrative acts. Refused is for those that need no credentials, and
// bounds their number.
type AuditLog interface {
	Record(ctx context.Context, e perigee.AuditEntry) error
	Refused(ctx context.Context, e perigee.AuditEntry)
}

// The types of pages that Options have.
type (
	Window  = pages.Window
	Warning = pages.Warning
	// An UpstreamState is an upstream and whether it can answer calls.
	UpstreamState = pages.UpstreamState
	Fact          = pages.Fact
	Client        = pages.Client
)

// A Dashboard serves the pages.
type Dashboard struct {
	opts       Options
	seats      chan struct{} // one for each event stream
	todayPause time.Duration // between updates of the numbers of the day

	searches searches
}

//go:embed static
var staticFiles embed.FS

// maxStreams is how many event streams there are at once.
const maxStreams = 32

// New returns a Dashboard.
func New(opts Options) *Dashboard {
	if opts.Zone == nil {
		opts.Zone = time.Local
	}
	return &Dashboard{opts: opts, seats: make(chan struct{}, maxStreams), todayPause: todayPause}
}

// Points returns the paths, except for / itself: see ServeHome.
func (d *Dashboard) Points() []mount.Point {
	get := func(path string, page func(*visit) error) mount.Point {
		return mount.Methods{"GET": d.page(page)}.At(path, mount.Public)
	}
	return []mount.Point{
		mount.Methods{"POST": mount.Value(d.newTicket)}.At(TicketPath, mount.Admin),
		mount.Methods{"GET": d.static}.At("/dashboard/static/*", mount.Public),
		{Path: "/dashboard/events", Access: mount.Public, Methods: []string{"GET"}, Handler: http.HandlerFunc(d.events)},
		get("/dashboard", (*visit).redirectHome),
		get("/dashboard/", (*visit).redirectHome),
		get("/dashboard/calls", (*visit).calls),
		mount.Methods{"GET": d.page((*visit).call), "POST": d.act((*visit).actOnCall)}.At("/dashboard/calls/*", mount.Public),
		get("/dashboard/accounts", (*visit).accounts),
		mount.Methods{"POST": d.act((*visit).changeAccount)}.At("/dashboard/accounts/*", mount.Public),
		get("/dashboard/usage", (*visit).usage),
		get("/dashboard/models", (*visit).models),
		get("/dashboard/upstreams", (*visit).upstreams),
		get("/dashboard/upstreams/*", (*visit).upstream),
		get("/dashboard/setup", (*visit).setup),
		get("/dashboard/config", (*visit).config),
		get("/dashboard/system", (*visit).system),
		mount.Methods{"POST": d.act((*visit).signOut)}.At("/dashboard/signout", mount.Public),
		get("/dashboard/*", (*visit).missing),
	}
}

// policy allows pages to load only files that perigee itself serves.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// setHeaders sets the headers of every answer.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}

// assets are the static files by name, with the sums that their addresses have: a browser keeps a
// file for as long as its address stays the same.
var assets = sync.OnceValue(func() map[string]asset {
	list := map[string]asset{}
	for name, kind := range map[string]string{"style.css": "text/css", "app.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		text, err := staticFiles.ReadFile("static/" + name)
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		list[name] = asset{text, kind + "; charset=utf-8", "/dashboard/static/" + name + "?v=" + hex.EncodeToString(sum[:6])}
	}
	return list
})

type asset struct {
	text       []byte
	kind, path string
}

func (d *Dashboard) static(w http.ResponseWriter, r *http.Request) error {
	file, ok := assets()[mount.Wildcard(r)]
	if !ok {
		return perigee.Errorf(perigee.ClassNotFound, "no such file: %s", mount.Shorten(r.URL.Path))
	}
	h := w.Header()
	setHeaders(h)
	h.Set("Content-Type", file.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	if r.Method != http.MethodHead {
		_, _ = w.Write(file.text) // the client may have disconnected
	}
	return nil
}

// A visit is one request for a page by a browser that is signed in.
type visit struct {
	*Dashboard
	w       http.ResponseWriter
	r       *http.Request
	ctx     context.Context // with the actor
	session *Session
	now     time.Time
}

// render answers with a page.
func (v *visit) render(status int, title, section string, page pages.Page) error {
	return v.write(v.w, v.r, status, pages.Frame{Title: title, Section: section, Token: v.session.FormToken(), Notice: v.session.TakeNotice(),
		Version: v.opts.Version, Open: v.opts.Live.Count()}, page)
}

// write answers with a page in a frame.
func (d *Dashboard) write(w http.ResponseWriter, r *http.Request, status int, frame pages.Frame, page pages.Page) error {
	frame.Asset = func(name string) string { return assets()[name].path }
	text := frame.Write(page, d.times()).String()
	setHeaders(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, text) // the client may have disconnected
	}
	return nil
}

// times are how pages write times.
func (d *Dashboard) times() pages.Times { return pages.Times{Now: d.opts.Now(), Zone: d.opts.Zone} }

// fail answers with the page about an error.
func (v *visit) fail(err error) error {
	e := perigee.AsError(err)
	title := "Something went wrong"
	if e.Class == perigee.ClassNotFound {
		title = "Not found"
	}
	v.w.Header().Set("X-Perigee-Class", string(e.Class))
	return v.render(e.HTTPStatus(""), title, "", pages.Problem{Title: title, Message: v.opts.Redact(e.Message), Hint: v.opts.Redact(e.Hint)})
}

func (v *visit) missing() error {
	return perigee.Errorf(perigee.ClassNotFound, "there is no page %s", mount.Shorten(v.r.URL.Path)).WithHint("use the navigation")
}

func (v *visit) redirectHome() error { return v.redirect("/") }

// redirect sends the browser to another page.
func (v *visit) redirect(to string) error {
	setHeaders(v.w.Header())
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}

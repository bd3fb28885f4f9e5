// Package pages writes the pages of the dashboard. Each is a struct with its data, without secrets,
// and its markup. All text of clients and providers is untrusted; package html escapes it.
package pages

import (
	"time"

	"perigee/internal/observe/dashboard/html"
)

// A Page is the content of a Frame.
type Page interface {
	HTML(t Times) html.HTML
}

// A Frame is the layout around a page.
type Frame struct {
	Title   string
	Section string // the entry of the navigation that is current
	Token   string // of forms; empty without a session, and then there is no navigation
	Notice  string
	Version string
	Open    int                      // calls that are being answered
	Asset   func(name string) string // the address of a static file
}

// Write returns a whole page.
func (f Frame) Write(page Page, t Times) html.HTML {
	return html.F(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
{}<title>{}{} · perigee</title>
<link rel="icon" href="{}" type="image/svg+xml">
<link rel="stylesheet" href="{}">
<script src="{}"></script>
</head>
{}
</html>
`, refresh(page), html.If(f.Open > 0, `({}) `, f.Open), f.Title, f.Asset("icon.svg"), f.Asset("style.css"), f.Asset("app.js"), f.body(page.HTML(t)))
}

// refresh returns the element that opens the dashboard after the page Welcome, or that loads a page
// with progress again after two seconds. It is empty for other pages.
func refresh(page Page) html.HTML {
	if _, ok := page.(Welcome); ok {
		return html.F(`<meta http-equiv="refresh" content="0; url=/">
`)
	}
	follower, ok := page.(interface{ Follows() bool })
	return html.If(ok && follower.Follows(), `<meta http-equiv="refresh" content="2">
`)
}

func (f Frame) body(page html.HTML) html.HTML {
	if f.Token == "" {
		return html.F(`<body class="bare">
<main id="main">
{}
</main>
</body>`, page)
	}
	return html.F(`<body>
<a class="skip" href="#main">Skip to content</a>
<header class="side">
  <a class="brand" href="/">{}<span>perigee</span></a>
  <nav aria-label="Dashboard" id="nav">
    <ul>{}</ul>
    <ul>{}</ul>
  </nav>
  <div class="side-foot">
    <span class="version" title="Version of perigee">{}</span>
    <button type="button" class="ghost" id="theme" hidden aria-label="Change between light and dark">{}</button>
    <form method="post" action="/dashboard/signout">{}<button class="ghost" aria-label="Sign out" title="Sign out">{}</button></form>
  </div>
</header>
<main id="main" tabindex="-1">
{}
{}
</main>
</body>`,
		mark(),
		html.Join(f.entry("now", "/", "Now"), f.entry("calls", "/dashboard/calls", "Calls"), f.entry("accounts", "/dashboard/accounts", "Accounts"),
			f.entry("usage", "/dashboard/usage", "Usage"), f.entry("models", "/dashboard/models", "Models"),
			f.entry("upstreams", "/dashboard/upstreams", "Upstreams")),
		html.Join(f.entry("setup", "/dashboard/setup", "Set up"), f.entry("config", "/dashboard/config", "Configuration"),
			f.entry("system", "/dashboard/system", "System")),
		f.Version, icon("theme"), tokenField(f.Token), icon("signout"),
		html.If(f.Notice != "", `<p class="notice" role="status" id="notice">{}<span>{}</span></p>`, icon("ok"), f.Notice),
		page)
}

// entry is an entry of the navigation.
func (f Frame) entry(section, path, name string) html.HTML {
	open := html.If(section == "now" && f.Open > 0, `<span class="badge" title="Open calls when this page was loaded">{}</span>`, f.Open)
	return html.F(`<li><a href="{}"{}>{}<span>{}</span>{}</a></li>`, path, html.Attr(section == f.Section, ` aria-current="page"`), icon(section), name, open)
}

// Times format times, relative to the current time and in a time zone.
type Times struct {
	Now  time.Time
	Zone *time.Location
}

func (t Times) until(at time.Time) string { return Span(at.Sub(t.Now)) }
func (t Times) since(at time.Time) string { return Span(t.Now.Sub(at)) }
func (t Times) stamp(at time.Time) string { return at.In(t.Zone).Format("2 Jan 2006, 15:04:05 MST") }

func iso(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// clock returns the time of day, with the date if it is not today.
func (t Times) clock(at time.Time) string {
	at, now := at.In(t.Zone), t.Now.In(t.Zone)
	switch {
	case at.Format(time.DateOnly) == now.Format(time.DateOnly):
		return at.Format("15:04:05")
	case at.Year() == now.Year():
		return at.Format("2 Jan 15:04")
	}
	return at.Format("2 Jan 2006 15:04")
}

// element returns a time as the given text, with the exact time in its attributes.
func (t Times) element(at time.Time, words string) html.HTML {
	return html.F(`<time datetime="{}" title="{}">{}</time>`, iso(at), t.stamp(at), words)
}

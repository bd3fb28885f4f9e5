package dashboard

import (
	"html/template"
	"net/url"
	"strings"
	"time"

	"perigee"
	"perigee/internal/dashboard/view"
)

// funcs are the functions of the templates.
func (d *Dashboard) funcs() template.FuncMap {
	return template.FuncMap{
		"asset":    func(name string) string { return assets[name].path },
		"icon":     view.Icon,
		"cost":     view.Cost,
		"count":    view.Count,
		"exact":    view.Exact,
		"size":     view.Size,
		"duration": view.Duration,
		"span":     view.Span,
		"until":    func(t time.Time) string { return view.Span(t.Sub(d.opts.Now())) },
		"since":    func(t time.Time) string { return view.Span(d.opts.Now().Sub(t)) },
		"ago":      func(t time.Time) string { return view.Ago(d.opts.Now().Sub(t)) },
		"clock":    func(t time.Time) string { return d.clock(t) },
		"stamp":    func(t time.Time) string { return t.In(d.opts.Zone).Format("2 Jan 2006, 15:04:05 MST") },
		"iso":      func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
		"percent":  view.Percent,
		"plural":   view.Plural,
		"path":     url.PathEscape,
		"short":    view.ShortID,
		"join":     strings.Join,
		"word":     func(s string) string { return strings.ReplaceAll(s, "_", " ") },
		"list":     func(values ...any) []any { return values },
	}
}

// clock is the time of day, with the day if that is another one.
func (d *Dashboard) clock(t time.Time) string {
	t, now := t.In(d.opts.Zone), d.opts.Now().In(d.opts.Zone)
	switch {
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format("15:04:05")
	case t.Year() == now.Year():
		return t.Format("2 Jan 15:04")
	}
	return t.Format("2 Jan 2006 15:04")
}

// clean returns a call for a page, without secrets.
func (d *Dashboard) clean(c perigee.Call) perigee.Call {
	for _, text := range []*string{&c.Error, &c.Model, &c.ModelAsked, &c.Account, &c.Finish, &c.Client.Name, &c.Client.Version, &c.Client.Key,
		&c.Client.Session} {
		*text = d.opts.Redact(*text)
	}
	notes, attempts := c.Notes, c.Attempts
	c.Notes, c.Attempts = make([]string, len(notes)), make([]perigee.Attempt, len(attempts))
	for i, note := range notes {
		c.Notes[i] = d.opts.Redact(note)
	}
	for i, a := range attempts {
		a.Error, a.Why, a.Account = d.opts.Redact(a.Error), d.opts.Redact(a.Why), d.opts.Redact(a.Account)
		c.Attempts[i] = a
	}
	return c
}

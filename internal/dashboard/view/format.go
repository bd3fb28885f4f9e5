// Package view turns what perigee knows into what people read: numbers, times, icons, charts, conversations, advice. It has no pages.
package view

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"perigee"
)

// Count shortens large numbers: 950, 12.3k, 4.56M.
func Count(n int64) string {
	for _, unit := range []struct {
		from, of int64
		name     string
	}{{1e9, 1e9, "B"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}} {
		if n < unit.from {
			continue
		}
		digits := 2
		for whole := n / unit.of; whole >= 10 && digits > 0; whole /= 10 {
			digits--
		}
		text := strconv.FormatFloat(float64(n)/float64(unit.of), 'f', digits, 64)
		if strings.Contains(text, ".") {
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		}
		return text + unit.name
	}
	return Exact(n)
}

// Exact writes a number with commas.
func Exact(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Size writes bytes.
func Size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return Plural(n, "byte")
}

// Duration writes a measured time.
func Duration(d time.Duration) string {
	switch {
	case d <= 0:
		return "–"
	case d < time.Millisecond:
		return "<1 ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return Span(d)
}

// Span writes a time as people say it.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		text := strconv.Itoa(int(d.Hours())) + " h"
		if minutes := int(d.Minutes()) % 60; minutes > 0 && d < 10*time.Hour {
			text += " " + strconv.Itoa(minutes) + " min"
		}
		return text
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days"
}

// Ago writes how long ago something was.
func Ago(d time.Duration) string {
	if d < 5*time.Second {
		return "just now"
	}
	return Span(d) + " ago"
}

// Percent never claims all or nothing of something else.
func Percent(fraction float64) string {
	switch {
	case fraction > 0 && fraction < 0.01:
		return "<1%"
	case fraction < 1 && fraction > 0.99:
		return "99%"
	}
	return strconv.Itoa(int(fraction*100+0.5)) + "%"
}

// Cost writes a cost, or a dash if it is unknown.
func Cost(c perigee.Cost) string {
	if !c.Known {
		return "–"
	}
	return c.String()
}

// Plural writes a number of things.
func Plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Exact(n) + " " + thing + "s"
}

// ShortID is the part of a call's ID that people compare.
func ShortID(id string) string {
	if len(id) <= 10 {
		return id
	}
	return id[:10]
}

// icons are the paths of the icons, drawn in a square of 16.
var icons = map[string]string{
	"now":      `<path d="M1.5 8h3l2-5 3.5 10 2-5h2.5"/>`,
	"calls":    `<path d="M2 4h12M2 8h12M2 12h7"/>`,
	"accounts": `<circle cx="8" cy="5.5" r="2.75"/><path d="M2.5 14c.6-2.7 2.7-4.2 5.5-4.2s4.900 1.500 5.500 4.200"/>`,
	"usage":    `<path d="M2.500 13.500v-4M6.200 13.500v-7M9.800 13.500v-5M13.500 13.500v-11"/>`,
	"models":   `<path d="M8 1.800 14 5v6l-6 3.200L2 11V5zM2.200 5.100 8 8.200l5.800-3.100M8 8.200v6"/>`,
	"setup":    `<path d="M5.500 2v3.500M10.500 2v3.500M3.500 5.500h9v2.200a4.500 4.500 0 0 1-9 0zM8 12.200V15"/>`,
	"config":   `<path d="M2 4.500h6.500M12.500 4.500H14M2 11.500h1.500M7.500 11.500H14"/><circle cx="10.500" cy="4.500" r="2"/><circle cx="5.500" cy="11.500" r="2"/>`,
	"system":   `<rect x="2" y="2.500" width="12" height="4.500" rx="1"/><rect x="2" y="9" width="12" height="4.500" rx="1"/><path d="M4.500 4.750h.01M4.500 11.250h.01"/>`,
	"theme":    `<circle cx="8" cy="8" r="5.500"/><path d="M8 2.500a5.500 5.500 0 0 1 0 11z" class="fill"/>`,
	"signout":  `<path d="M6 2.500H3v11h3M7 8h7M11 5l3 3-3 3"/>`,
	"copy":     `<rect x="5.500" y="5.500" width="8" height="8" rx="1.500"/><path d="M10.500 5.500v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2"/>`,
	"replay":   `<path d="M13.500 8a5.500 5.500 0 1 1-1.700-4M13.500 1.800V4.500H10.800"/>`,
	"warn":     `<path d="M8 2 14.500 13.500h-13zM8 6.500v3.200M8 11.600h.01"/>`,
	"ok":       `<circle cx="8" cy="8" r="6"/><path d="m5.300 8.200 1.900 1.900 3.600-4"/>`,
	"file":     `<path d="M4 1.800h5L12.500 5v9.200H4zM8.800 2v3.300h3.500"/>`,
	"next":     `<path d="m6 3.500 4.500 4.500L6 12.500"/>`,
	"back":     `<path d="M10 3.500 5.500 8l4.500 4.500"/>`,
}

// Icon draws an icon beside a word, which says the same.
func Icon(name string) template.HTML {
	drawing, ok := icons[name]
	if !ok {
		panic("no icon " + name)
	}
	return template.HTML(`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">` + drawing + `</svg>`)
}

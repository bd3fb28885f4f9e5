package pages

import (
	"fmt"
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

// Span formats a duration for people.
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

// Percent writes a fraction in percent. Only exactly 0 is 0%, and only exactly 1 is 100%.
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

// CostOf writes the cost of a group of calls.
func CostOf(r perigee.UsageRow) string {
	if !r.CostUSD.Known {
		return Cost(r.CostUSD)
	}
	return r.CostText()
}

// Plural writes a number of things.
func Plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Exact(n) + " " + thing + "s"
}

// ShortID returns the beginning of a call's ID, which suffices to recognize it.
func ShortID(id string) string {
	if len(id) <= 10 {
		return id
	}
	return id[:10]
}

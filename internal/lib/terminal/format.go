package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Span formats a duration in the two largest units.
func Span(d time.Duration) string {
	switch {
	case d < time.Second:
		return "a moment"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Round(time.Second)/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Round(time.Minute)/time.Minute))
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", int(d/time.Hour), int(d%time.Hour/time.Minute))
	}
	d = d.Round(time.Hour)
	return fmt.Sprintf("%dd%02dh", int(d/(24*time.Hour)), int(d%(24*time.Hour)/time.Hour))
}

// Duration formats a duration in about three digits.
func Duration(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	d = d.Round(time.Second)
	return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
}

// Size formats a number of bytes in the largest unit of which there is at least one.
func Size(n int64) string {
	size, unit := float64(n), "B"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, larger
	}
	if unit == "B" || size >= 100 || size == float64(int64(size)) {
		return fmt.Sprintf("%.0f %s", size, unit)
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}

// Age formats a duration in days or, if it is not a number of days, in hours and minutes. It is
// empty for 0.
func Age(age time.Duration) string {
	switch {
	case age == 0:
		return ""
	case age%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", age/(24*time.Hour))
	}
	return strings.TrimSuffix(strings.TrimSuffix(age.String(), "0s"), "0m")
}

// Percent is rounded down. It is 0% only if nothing is left, and 100% only if everything is.
func Percent(fraction float64) string {
	p := 100*fraction + 1e-9 // 0.29 is a little less than 29 percent in binary
	switch {
	case fraction > 0 && p < 1:
		return "<1%"
	case fraction < 1 && p > 99.001:
		return ">99%"
	}
	return fmt.Sprintf("%d%%", int(p))
}

// Number formats a count with its noun.
func Number(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// Joined joins the words that are not empty with commas. Without any it is a dash.
func Joined(words ...string) string {
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "" })
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ", ")
}

// Labelled formats a value with its label, empty without a value.
func Labelled(label, value string) string {
	if value == "" {
		return ""
	}
	return label + " " + value
}

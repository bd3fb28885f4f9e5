package providererr

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"perigee/internal/lib/lazyregexp"
)

// MaxDelay is the longest delay that is accepted: the longest window of the provider is a week.
const MaxDelay = 7 * 24 * time.Hour

// longestRest is the top of the Ladder.
const longestRest = time.Minute

// Ladder returns the cooldown of an account after so many failures in a row for which the provider
// named no delay: 1, 2, 4 … 60 seconds. Without a failure it is 0.
func Ladder(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	return min(time.Second<<min(failures-1, 10), longestRest)
}

// wait returns the delay after which the error ends. The exact sources come first: the message has
// whole seconds, and headers may be a proxy's. The first source with more than 0 counts; named
// reports whether any source has a delay.
func (e *evidence) wait(header http.Header, now time.Time) (delay time.Duration, named bool) {
	sources := []func() (time.Duration, bool){
		func() (time.Duration, bool) { return parseDelay(e.retryDelay) },
		func() (time.Duration, bool) { return parseDelay(e.resetDelay) },
		func() (time.Duration, bool) { return until(e.resetTime, time.RFC3339, now) },
		func() (time.Duration, bool) { return messageDelay(e.message, now) },
		func() (time.Duration, bool) { return headerDelay(header, now) },
	}
	for _, source := range sources {
		d, ok := source()
		named = named || ok
		if ok && d > 0 {
			return min(d, MaxDelay), true
		}
	}
	return 0, named
}

// parseDelay reads a delay from a field: "1h16m0.667s", "3600s", 3600 or {"seconds": 3600, "nanos":
// 0}.
func parseDelay(raw json.RawMessage) (time.Duration, bool) {
	if o := objectOf(raw); o != nil {
		whole, _, ok := readDuration(o.text("seconds"))
		part, _ := strconv.ParseInt(o.text("nanos"), 10, 32)
		return whole + time.Duration(part), ok || part != 0
	}
	d, rest, ok := readDuration(textOf(raw))
	return d, ok && rest == ""
}

func until(stamp, layout string, now time.Time) (time.Duration, bool) {
	t, err := time.Parse(layout, strings.TrimSpace(stamp))
	return t.Sub(now), err == nil
}

// delayPattern leads up to a delay in a sentence: "your quota will reset after 2h5m", "please
// retry in 12.3s", "try again in 5 minutes", "wait 30 seconds", and nothing but "after 30s".
var delayPattern = lazyregexp.New(`(?i)\b(?:(?:reset|resets|retry|again|available|wait|back ?off)(?: (?:after|in|for|at))?|after):? `)

func messageDelay(message string, now time.Time) (time.Duration, bool) {
	message = strings.Join(strings.Fields(message[:min(len(message), maxText)]), " ")
	for _, at := range delayPattern().FindAllStringIndex(message, maxLists) {
		rest := message[at[1]:]
		stamp, _, _ := strings.Cut(rest, " ")
		if d, ok := until(strings.TrimRight(stamp, ".,;)"), time.RFC3339, now); ok {
			return d, true
		}
		if d, _, ok := readDuration(rest); ok {
			return d, true
		}
	}
	return 0, false
}

// RetryAfter returns the delay in the headers, at most MaxDelay; 0 if there is none.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	d, _ := headerDelay(header, now)
	return min(max(d, 0), MaxDelay)
}

func headerDelay(header http.Header, now time.Time) (time.Duration, bool) {
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil {
		return seconds(ms / 1000), true
	}
	for _, name := range []string{"Retry-After", "X-Ratelimit-Reset-After"} {
		if d, rest, ok := readDuration(header.Get(name)); ok && rest == "" {
			return d, true
		}
	}
	if d, ok := until(header.Get("Retry-After"), http.TimeFormat, now); ok {
		return d, true
	}
	if stamp, err := strconv.ParseInt(header.Get("X-Ratelimit-Reset"), 10, 64); err == nil {
		return time.Unix(min(max(stamp, 0), 1<<40), 0).Sub(now), true
	}
	return 0, false
}

// units are the lengths in seconds of the units that the provider and proxies use.
var units = map[string]float64{
	"": 1, "s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1,
	"ms": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9,
	"m": 60, "min": 60, "mins": 60, "minute": 60, "minutes": 60,
	"h": 3600, "hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600, "d": 86400, "day": 86400, "days": 86400,
}

var durationPart = lazyregexp.New(`^(?:,? (?:and )?)?(\d+(?:\.\d+)?) ?([A-Za-zµμ]*)`)

// readDuration reads a duration from the start of text: numbers with their units, or one number of
// seconds without a unit. A negative one has been over for a while and is 0. time.ParseDuration
// needs the whole text and supports neither words nor days.
func readDuration(text string) (d time.Duration, rest string, ok bool) {
	rest, negative := strings.CutPrefix(strings.TrimSpace(text), "-")
	var sum float64
	for {
		m := durationPart().FindStringSubmatch(rest)
		if m == nil {
			break
		}
		unit, known := units[strings.ToLower(m[2])]
		if !known || ok && m[2] == "" {
			break
		}
		number, _ := strconv.ParseFloat(m[1], 64) // out of range is infinite
		sum += number * unit
		rest, ok = rest[len(m[0]):], true
		if m[2] == "" {
			break
		}
	}
	if negative {
		sum = 0
	}
	return seconds(sum), rest, ok
}

// seconds returns a time.Duration that does not overflow, and is not negative.
func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	if s > MaxDelay.Seconds() {
		return MaxDelay
	}
	return time.Duration(s*1e9 + 0.5)
}

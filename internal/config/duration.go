package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// parseDuration reads what time.ParseDuration reads, and whole days in front of it: 90d, 1d12h. A day has 24 hours.
func parseDuration(text string) (time.Duration, error) {
	number, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		return time.ParseDuration(text)
	}
	days, err := strconv.ParseUint(number, 10, 32)
	if err != nil || days > math.MaxInt64/uint64(day) {
		return 0, errors.New("not a number of days: " + number)
	}
	d := time.Duration(days) * day
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 || rest[0] == '+' || d+more < d {
		return 0, errors.New("not a duration: " + text)
	}
	return d + more, nil
}

// durationText writes d without the zeros that time.Duration writes: 2m, not 2m0s. Whole days are 2d, not 48h0m0s.
func durationText(d time.Duration) string {
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

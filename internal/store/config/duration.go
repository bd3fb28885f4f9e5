package config

import (
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// parseDuration reads the texts of time.ParseDuration, and whole days of 24 hours in front of them:
// 90d, 1d12h.
func parseDuration(text string) (d time.Duration, ok bool) {
	number, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		d, err := time.ParseDuration(text)
		return d, err == nil
	}
	days, err := strconv.ParseUint(number, 10, 32)
	if err != nil || days > math.MaxInt64/uint64(day) {
		return 0, false
	}
	d = time.Duration(days) * day
	if rest == "" {
		return d, true
	}
	more, err := time.ParseDuration(rest)
	return d + more, err == nil && more >= 0 && rest[0] != '+' && d+more >= d
}

// formatDuration writes d without the zero units that time.Duration writes: 2m, not 2m0s; 2d, not
// 48h0m0s.
func formatDuration(d time.Duration) string {
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

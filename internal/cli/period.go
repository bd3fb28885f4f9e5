package cli

import (
	"strconv"
	"strings"
	"time"
)

// ParsePeriod reads the values of --since and --until of a command. A period that is empty or in
// the future is an error.
func ParsePeriod(command, since, until string, now time.Time) (from, to time.Time, err error) {
	for i, at := range []*time.Time{&from, &to} {
		text := []string{since, until}[i]
		if text == "" {
			continue
		}
		t, ok := moment(text, now)
		if !ok {
			return from, to, Usagef("%s: %q is not a time; write it as 2026-01-31, 2026-01-31T00:00:00Z, yesterday, 2d or 1h30m", command, text)
		}
		*at = t
	}
	switch {
	case from.After(now):
		return from, to, Usagef("%s: --since %s is in the future (%s)", command, since, from.Format(time.RFC3339))
	case !to.IsZero() && !from.Before(to):
		return from, to, Usagef("%s: nothing lies between --since %s and --until %s: the first has to be the earlier one", command, since, until)
	}
	return from, to, nil
}

// moment reads a time as the help describes it. Days are UTC days, by which usage is grouped.
func moment(text string, now time.Time) (t time.Time, ok bool) {
	today := now.UTC().Truncate(24 * time.Hour)
	switch text {
	case "now":
		return now, true
	case "today":
		return today, true
	case "yesterday":
		return today.AddDate(0, 0, -1), true
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	for unit, days := range map[string]int{"d": 1, "w": 7} {
		if count, found := strings.CutSuffix(text, unit); found {
			n, err := strconv.ParseUint(count, 10, 12)
			return now.AddDate(0, 0, -int(n)*days), err == nil
		}
	}
	ago, err := time.ParseDuration(text)
	return now.Add(-ago), err == nil && ago > 0
}

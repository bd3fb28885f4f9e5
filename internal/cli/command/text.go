package command

import "time"

// OrDash returns s, or a dash if s is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// YesNo formats a boolean for a table.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Zone returns the current time zone of this machine, named by its offset, so that all rows of a
// listing have the same zone.
func Zone() *time.Location {
	_, offset := time.Now().Zone()
	if offset == 0 {
		return time.UTC
	}
	return time.FixedZone(time.Now().Format("-07:00"), offset)
}

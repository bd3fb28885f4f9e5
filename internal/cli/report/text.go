// Package report prints accounts, quota and calls for people: tables, and the lines below them.
package report

import (
	"fmt"
	"time"
)

// Number is a count with its noun.
func Number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// OrDash stands for an empty cell.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// YesNo is a boolean in a table.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Zone is the current time zone of this machine, named by its offset, so that all rows of a listing have the same zone.
func Zone() *time.Location {
	_, offset := time.Now().Zone()
	if offset == 0 {
		return time.UTC
	}
	return time.FixedZone(time.Now().Format("-07:00"), offset)
}

// Joined joins the words that are not empty.
func Joined(words ...string) string {
	text := ""
	for _, word := range words {
		if text != "" && word != "" {
			text += ", "
		}
		text += word
	}
	return OrDash(text)
}

// Labelled is a value with its label, empty without a value.
func Labelled(label, value string) string {
	if value == "" {
		return ""
	}
	return label + " " + value
}

package models

import "time"

// released has the published release dates of models. Names of one model share
// a date; previews have their own.
var released = map[string]string{
	"claude-opus-4-6-thinking":       "2026-02-05",
	"claude-sonnet-4-6":              "2026-02-17",
	"claude-sonnet-4-6-thinking":     "2026-02-17",
	"claude-opus-4-5-thinking":       "2025-11-24",
	"claude-sonnet-4-5":              "2025-09-29",
	"claude-sonnet-4-5-thinking":     "2025-09-29",
	"gemini-3-flash":                 "2025-12-17",
	"gemini-3-flash-preview":         "2025-12-17",
	"gemini-3-pro-preview":           "2025-11-18",
	"gemini-3-pro-high":              "2025-11-18",
	"gemini-3-pro-low":               "2025-11-18",
	"gemini-3-pro-image-preview":     "2025-11-20",
	"gemini-3.1-pro-preview":         "2026-02-19",
	"gemini-3.1-pro-high":            "2026-02-19",
	"gemini-3.1-pro-low":             "2026-02-19",
	"gemini-2.5-pro":                 "2025-06-17",
	"gemini-2.5-flash":               "2025-06-17",
	"gemini-2.5-flash-thinking":      "2025-06-17",
	"gemini-2.5-flash-lite":          "2025-07-22",
	"gemini-2.5-flash-image":         "2025-10-02",
	"gemini-2.5-flash-image-preview": "2025-08-26",
	"gemini-2.0-flash":               "2025-02-05",
	"gemini-2.0-flash-lite":          "2025-02-25",
	"gemini-embedding-001":           "2025-07-14",
	"gpt-oss-120b-medium":            "2025-08-05",
}

// Released returns when a model was released, at midnight UTC; zero if unknown.
func Released(id string) time.Time {
	t, _ := time.Parse(time.DateOnly, released[id]) // zero after an error
	return t
}

package pages

import (
	"strings"
	"time"

	"perigee"
	"perigee/internal/observe/trace"
)

// An Answer is the answer to a call over time.
type Answer struct {
	Text, Thinking string
	Cut            bool     // not all of it is here
	Tools          []string // calls of functions
	Line           string   // points of the text's growth, in a square of 1000 by 100
}

// ReadAnswer reads the events of a call. total is the duration of the call; redact replaces
// secrets.
func ReadAnswer(lines []byte, total time.Duration, redact func(string) string) (a Answer) {
	var text, thinking strings.Builder
	type point struct{ ms, bytes float64 }
	var points []point
	written := 0.0
	for line := range trace.Lines(lines) {
		switch {
		case line.Candidate != 0: // the page shows the first one
		case line.Kind == "thinking":
			thinking.WriteString(line.Text)
			written += float64(len(line.Text))
		case line.Kind == "text":
			text.WriteString(line.Text)
			written += float64(len(line.Text))
		case line.Kind == "call":
			a.Tools = append(a.Tools, redact(perigee.Clip(line.Name+" "+string(line.Args), 400)))
		}
		if len(points) == 0 || line.MS > points[len(points)-1].ms {
			points = append(points, point{line.MS, written})
		} else {
			points[len(points)-1].bytes = written
		}
	}
	end := max(float64(total)/float64(time.Millisecond), 1)
	if n := len(points); n > 0 {
		end = max(end, points[n-1].ms)
	}
	if written > 0 && len(points) > 2 {
		line := []string{}
		stride := max(1, len(points)/400)
		for i := 0; i < len(points); i += stride {
			line = append(line, Number(points[i].ms/end*1000)+","+Number(100-points[i].bytes/written*100))
		}
		a.Line = strings.Join(append(line, "1000,0"), " ")
	}
	var cut [2]bool
	a.Text, cut[0] = Shown(redact, text.String())
	a.Thinking, cut[1] = Shown(redact, thinking.String())
	a.Cut = cut[0] || cut[1]
	return a
}

// Shown returns the beginning of a text without secrets, and reports whether there is more.
func Shown(redact func(string) string, text string) (string, bool) {
	text = redact(text)
	if len(text) <= maxShown {
		return text, false
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "…", true
}

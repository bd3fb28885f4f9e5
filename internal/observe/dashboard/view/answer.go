package view

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"perigee"
)

// An Answer is what a call has said, over time.
type Answer struct {
	Text, Thinking string
	Cut            bool     // not all of it is here
	Tools          []string // calls of functions
	Line           string   // points of the text's growth, in a square of 1000 by 100
}

// An eventLine is what is known of a line of events.jsonl. Lines of other forms are counted only.
type eventLine struct {
	MS        float64
	Kind      string
	Candidate int
	Text      string
	Name      string
	Args      json.RawMessage
	Frame     struct { // a chunk in the provider's own dialect
		Candidates []struct {
			Index   int
			Content struct {
				Parts []struct {
					Text         string
					Thought      bool
					FunctionCall *struct {
						Name string
						Args json.RawMessage
					}
				}
			}
		}
	}
}

// pieces calls f with each piece of the first candidate's answer.
func (e *eventLine) pieces(f func(kind, text string)) {
	if e.Candidate == 0 {
		switch e.Kind {
		case "text", "thinking":
			f(e.Kind, e.Text)
		case "call":
			f("call", e.Name+" "+string(e.Args))
		}
	}
	for _, c := range e.Frame.Candidates {
		for _, p := range c.Content.Parts {
			switch {
			case c.Index != 0:
			case p.FunctionCall != nil:
				f("call", p.FunctionCall.Name+" "+string(p.FunctionCall.Args))
			case p.Thought:
				f("thinking", p.Text)
			default:
				f("text", p.Text)
			}
		}
	}
}

// ReadAnswer reads the events of a call that took so long in all. Redact replaces secrets.
func ReadAnswer(lines []byte, total time.Duration, redact func(string) string) (a Answer) {
	var text, thinking strings.Builder
	type point struct{ ms, bytes float64 }
	var points []point
	written := 0.0
	for line := range bytes.Lines(lines) {
		var e eventLine
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		e.pieces(func(kind, piece string) {
			switch kind {
			case "thinking":
				thinking.WriteString(piece)
			case "text":
				text.WriteString(piece)
			default:
				a.Tools = append(a.Tools, redact(perigee.Clip(piece, 400)))
				return
			}
			written += float64(len(piece))
		})
		if len(points) == 0 || e.MS > points[len(points)-1].ms {
			points = append(points, point{e.MS, written})
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

// Shown is the beginning of a text without secrets, and reports whether there is more.
func Shown(redact func(string) string, text string) (string, bool) {
	text = redact(text)
	if len(text) <= maxShown {
		return text, false
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "…", true
}

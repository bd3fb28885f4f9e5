// Package story prints a recorded call for people: the request, the changes that perigee made, the
// upstreams that were tried and why, the answer over time, the end and the usage. It uses the trace
// directory of the call, or only its record if there is none.
//
// The package is pure but for reading the directory.
package story

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"perigee"
	"perigee/internal/lib/lazyregexp"
	"perigee/internal/lib/terminal"
	"perigee/internal/observe/trace"
)

// A Story is a call and the options for printing it.
type Story struct {
	Call  perigee.Trace
	Trace *trace.Trace // nil if the call has no directory

	// Redact replaces secrets in texts that were put together from pieces.
	Redact func(text string) string

	// Hint completes the commands that are suggested, for instance with --config.
	Hint func(text string) string

	Width   int // of the terminal, at which lines are folded; 0 means no folding
	Palette terminal.Palette
	Zone    *time.Location
}

// indent is the width of the column with the names of lines.
const indent = 10

// Write writes the story.
func (s *Story) Write(out io.Writer) error {
	p := &printer{story: s}
	t := &s.Call
	p.line("call", terminal.Strong, "%s", t.ID)
	p.line("time", "", "%s", t.Time.In(s.Zone).Format("2006-01-02T15:04:05.000Z07:00"))
	if t.ReplayOf != "" {
		p.line("replay of", "", "%s", t.ReplayOf)
	}
	p.line("request", "", "%s",
		terminal.Joined(dialectName(t), t.Operation, t.ModelAsked, fmt.Sprintf("%d bytes", t.BytesIn)))
	p.request()
	p.line("client", "", "%s", terminal.Joined(strings.TrimSpace(t.ClientName+" "+t.ClientVersion),
		terminal.Labelled("key", t.Key), terminal.Labelled("session", t.Session),
		terminal.Labelled("agent", t.Agent), terminal.Labelled("parent", t.ParentAgent)))
	for _, note := range t.Notes {
		p.line("note", terminal.Warning, "%s", note)
	}
	p.tries()
	switch {
	case t.FirstByteMS > 0 || t.Outcome == perigee.OutcomeDone:
		p.line("answered", "", "%s", terminal.Joined(t.Model, t.Upstream, t.Account))
	case t.Upstream != "":
		p.line("upstream", "", "%s", terminal.Joined(t.Upstream, t.Account))
	}
	p.answer()
	cache := ""
	if t.CachedTokens > 0 {
		rate := perigee.Usage{Input: t.InputTokens, Cached: t.CachedTokens}.HitRate()
		cache = fmt.Sprintf(", hit rate %s", terminal.Percent(rate))
	}
	if t.WrittenTokens > 0 {
		cache += fmt.Sprintf(", %d written", t.WrittenTokens)
	}
	p.line("tokens", "", "%d in (%d cached%s), %d out (%d thinking)", t.InputTokens, t.CachedTokens, cache, t.OutputTokens, t.ThinkingTokens)
	switch {
	case t.Charged:
		p.line("cost", "", "%s (reported by the provider)", t.CostUSD)
	case t.CostUSD.Known:
		p.line("cost", "", "%s (list price)", t.CostUSD)
	}
	p.end()
	_, err := io.WriteString(out, p.text.String())
	return err
}

// A printer writes the lines of a story.
type printer struct {
	story *Story
	text  strings.Builder
}

// line writes a line with a name, which may be empty.
func (p *printer) line(name, colour, format string, args ...any) {
	lines := []string{terminal.Printable(fmt.Sprintf(format, args...))}
	if width := p.story.Width; width > 2*indent && utf8.RuneCountInString(lines[0]) > width-indent {
		lines = terminal.Fold(lines[0], width-indent)
	}
	for _, text := range lines {
		fmt.Fprintf(&p.text, "%s%s\n", p.story.Palette.Paint(fmt.Sprintf("%-*s", indent, name), terminal.Faint), p.story.Palette.Paint(text, colour))
		name = ""
	}
}

// end writes how the call ended, and what to do about it.
func (p *printer) end() {
	t := &p.story.Call
	if t.Outcome == perigee.OutcomeOpen {
		p.line("result", terminal.Warning, "open: the call has not ended, or perigee ended before it")
		p.directory()
		return
	}
	if t.FirstByteMS > 0 {
		p.line("duration", "", "%.1f ms, first byte after %.1f ms", t.DurationMS, t.FirstByteMS)
	} else {
		p.line("duration", "", "%.1f ms", t.DurationMS)
	}
	if t.Status != 0 {
		p.line("status", "", "%d %s", t.Status, http.StatusText(t.Status))
	}
	colour := terminal.Good
	switch t.Outcome {
	case perigee.OutcomeFailed, perigee.OutcomeCutOff:
		colour = terminal.Bad
	case perigee.OutcomeCanceled:
		colour = terminal.Warning
	}
	p.line("result", colour, "%s", terminal.Joined(string(t.Outcome), t.Finish, string(t.Class), t.Error))
	if next := p.next(); next != "" {
		p.line("next", "", "%s", p.story.Hint(next))
	}
	p.directory()
}

// directory writes where the files of the call are.
func (p *printer) directory() {
	tr := p.story.Trace
	if tr == nil {
		p.line("trace", "", "none: it was not written, because traces are off or perigee was busy, or it is gone")
		return
	}
	p.line("trace", "", "%s (%s)", tr.Dir, terminal.Number(len(tr.Files()), "file", "files"))
	for _, name := range slices.Sorted(maps.Keys(tr.Meta.Truncated)) {
		p.line("", terminal.Warning, "%s is not complete: %s", name, tr.Meta.Truncated[name])
	}
}

// next returns the advice for a call that failed, or "" if there is none.
func (p *printer) next() string {
	t := &p.story.Call
	switch t.Class {
	case perigee.ClassInvalid:
		if !p.isJSON() {
			return "change what the error names; sending the request again does not help"
		}
		return "perigee trace shrink " + t.ID + " finds the part of the request that fails"
	case perigee.ClassUnauthenticated:
		if t.Account == "" { // it was sent with an API key, or there was no account
			return "perigee config show has the keys of " + cmp.Or(t.Upstream, "each upstream") +
				"; of one with accounts, perigee account list shows the sign-ins, and perigee login signs in"
		}
		return "perigee account list shows which sign-in is refused; perigee login signs in again"
	case perigee.ClassVerification:
		return "perigee account list names the account whose owner has to verify it"
	case perigee.ClassIdentity:
		return "the provider refuses this client version: set client_version of the upstream, or update perigee"
	case perigee.ClassForbidden:
		if t.Account != "" {
			return "perigee account list shows the state of " + t.Account + "; at the provider, check its permissions"
		}
		return "perigee config show lists the models that each key may use; at a provider, check the permissions of its key or account"
	case perigee.ClassNotFound:
		return "perigee models lists what can be asked"
	case perigee.ClassExhausted, perigee.ClassRateLimited:
		return "perigee explain " + modelWord(t.ModelAsked) + " shows what can answer now, perigee quota what accounts have left, " +
			"perigee usage --by key what keys have used"
	case perigee.ClassCapacity, perigee.ClassUnavailable:
		if p.story.Trace == nil {
			return "perigee explain " + modelWord(t.ModelAsked) + " shows what can answer now"
		}
		return "perigee trace replay " + t.ID + " tries it again"
	case perigee.ClassUnimplemented:
		if p.story.Trace == nil {
			return "perigee explain " + modelWord(t.ModelAsked) + " shows the upstreams that can answer"
		}
		return "perigee trace replay " + t.ID + " --upstream NAME tries it elsewhere"
	case perigee.ClassInternal:
		return "please report it; perigee trace bundle " + t.ID + " collects what is needed"
	}
	return ""
}

// isJSON reports whether the request of the client is there and could be decoded, without which it
// cannot be shrunk.
func (p *printer) isJSON() bool {
	if p.story.Trace == nil {
		return false
	}
	raw, err := p.story.Trace.Read(trace.ClientRequestName)
	return err == nil && json.Valid(raw)
}

var plainModel = lazyregexp.New(`^[A-Za-z0-9._:/@-]+$`)

// modelWord returns a model as an argument of a command, or MODEL if it would have to be quoted.
func modelWord(model string) string {
	if plainModel().MatchString(model) {
		return model
	}
	return "MODEL"
}

// dialectName is the dialect of a call. Embeddings are recorded as OpenAI's chat dialect, and shown as
// openai.
func dialectName(t *perigee.Trace) string {
	if t.Dialect == perigee.DialectOpenAIChat && t.Operation == perigee.OperationEmbed {
		return "openai"
	}
	return string(t.Dialect)
}

// tries writes the requests to providers in order.
func (p *printer) tries() {
	if p.story.Trace != nil && len(p.story.Trace.Meta.Tries) > 0 {
		for i, try := range p.story.Trace.Meta.Tries {
			p.try(i+1, try)
		}
		return
	}
	for i, a := range p.story.Call.Attempts {
		result, colour := "answered", ""
		if a.Class != "" {
			result, colour = string(a.Class)+": "+a.Error, terminal.Warning
		}
		when := terminal.Joined(a.Took.Round(time.Millisecond).String(), a.Endpoint)
		p.line(fmt.Sprintf("try %d", i+1), colour, "%s (%s)", terminal.Joined(a.Upstream, a.Account, result), because(a.Why, when))
	}
}

// try writes one request to a provider.
func (p *printer) try(number int, try trace.Try) {
	result, colour := "answered", ""
	switch {
	case try.Class != "":
		result, colour = string(try.Class), terminal.Warning
		if try.Error != "" {
			result += ": " + try.Error
		}
	case try.Status == 0 && try.FirstByteMS == 0 && p.story.Call.Outcome == perigee.OutcomeOpen:
		result = "no answer yet"
	case try.Request != "" && try.Status != http.StatusOK: // not the last request of its attempt, which has the result
		result, colour = "not answered", terminal.Warning
	}
	when := "at " + after(try.StartedMS)
	if try.FirstByteMS > 0 {
		when += ", first byte at " + after(try.FirstByteMS)
	}
	if try.Status != 0 {
		when = fmt.Sprintf("%d, %s", try.Status, when)
	}
	when = terminal.Joined(when, try.Endpoint)
	p.line(fmt.Sprintf("try %d", number), colour, "%s (%s)", terminal.Joined(try.Upstream, try.Account, result), because(try.Why, when))
}

// because is why an upstream was tried, if there was a choice, and when.
func because(why, when string) string {
	if why == "" {
		return when
	}
	return why + "; " + when
}

// after is a time since the call began.
func after(ms float64) string {
	return "+" + terminal.Duration(time.Duration(ms*float64(time.Millisecond)))
}

// maxQuoted is how much of a text is quoted, in characters.
const maxQuoted = 80

// quote is the beginning of a text on one line, in quotation marks.
func (p *printer) quote(text string) string {
	return `"` + clipped(p.story.Redact(text), maxQuoted) + `"`
}

// clipped is the beginning of a text, with single spaces.
func clipped(text string, limit int) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(text) {
		if b.Len() > 4*limit {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	runes := []rune(b.String())
	if len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return string(runes)
}

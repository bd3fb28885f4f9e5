package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// newLogger returns the logger of a command that runs for long, in the format that the configuration names. At a terminal "auto"
// writes short lines for reading, and terminal is true: what the command itself has to say goes there as sentences. Otherwise it
// goes through the logger, so that the stream has one format.
func newLogger(env *environment, format string, level slog.Leveler) (logger *slog.Logger, terminal bool) {
	options := &slog.HandlerOptions{Level: level}
	switch {
	case format == "json":
		return slog.New(slog.NewJSONHandler(env.stderr, options)), false
	case format == "auto" && isTerminal(env.stderr):
		file := env.stderr.(*os.File)
		return slog.New(&terminalHandler{level: level, screen: &screen{out: file, width: func() int { return streamWidth(file) }, colour: wantsColour()}}), true
	}
	return slog.New(slog.NewTextHandler(env.stderr, options)), false
}

// wantsColour says whether the person at the terminal may be shown colours. See no-color.org.
func wantsColour() bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	return runtime.GOOS != "windows" || os.Getenv("WT_SESSION") != "" // the old console shows the codes themselves
}

// A screen is a terminal that log lines are written to. It remembers how wide columns have been, so that lines stand below
// each other.
type screen struct {
	mu     sync.Mutex
	out    io.Writer
	width  func() int // 0: unknown
	colour bool
	widest [3]int // of the models, upstreams and clients so far
}

// A terminalHandler writes one short line per call, and other records as a sentence with their time.
type terminalHandler struct {
	level  slog.Leveler
	screen *screen
	attrs  []slog.Attr
}

// Enabled says whether a level is logged.
func (h *terminalHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

// WithAttrs returns a handler whose records have these attributes, too.
func (h *terminalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &terminalHandler{h.level, h.screen, append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup returns h: a line has no groups.
func (h *terminalHandler) WithGroup(string) slog.Handler { return h }

// Handle writes a record.
func (h *terminalHandler) Handle(_ context.Context, r slog.Record) error {
	about := facts{}
	var order []string
	take := func(a slog.Attr) bool {
		if _, twice := about[a.Key]; !twice {
			order = append(order, a.Key)
		}
		about[a.Key] = a.Value
		return true
	}
	for _, a := range h.attrs {
		take(a)
	}
	r.Attrs(take)
	h.screen.mu.Lock()
	defer h.screen.mu.Unlock()
	var line string
	switch {
	case about.word("outcome") != "" && strings.HasPrefix(r.Message, "call "):
		line = h.screen.callLine(r.Time, about)
	case about.word("path") != "" && about.number("status") > 0:
		line = h.screen.requestLine(r.Time, about)
	default:
		line = h.screen.sentence(r, order, about)
	}
	_, err := io.WriteString(h.screen.out, line+"\n")
	return err
}

// A part is a piece of a line. What is needed least is left out first where the line is too long.
type part struct {
	text   string
	colour string
	pad    int // to this width
	rank   int // how much it is needed; 0: it always stays
}

// The colours of a terminal, by what they are for.
const (
	faint  = "2"
	good   = "32"
	strain = "33"
	bad    = "31"
)

// callLine is the line about a finished call.
func (s *screen) callLine(at time.Time, about facts) string {
	word := about.word
	model := word("model")
	if asked := word("model_asked"); asked != "" {
		model = asked + " → " + model
	}
	if operation := word("operation"); operation != "" && operation != "generate" {
		model = strings.TrimSpace(operation + " " + model)
	}
	parts := []part{
		{text: at.Format(time.TimeOnly), colour: faint},
		s.statusPart(about),
		{text: model, pad: s.column(0, model, 40)},
		{text: word("upstream"), colour: faint, pad: s.column(1, word("upstream"), 16), rank: 2},
		{text: word("client"), colour: faint, pad: s.column(2, word("client"), 16), rank: 1},
	}
	if input, output := about.number("input"), about.number("output"); input+output > 0 {
		parts = append(parts, part{text: amount(input).short() + "→" + amount(output).short(), pad: 10, rank: 3})
	}
	took := about.seconds("duration")
	if first := about.seconds("first_byte"); first != "" {
		took = first + "/" + took
	}
	parts = append(parts, part{text: took, pad: 11, rank: 4})
	tail, colour := word("notes"), faint
	if class := word("class"); class != "" {
		tail, colour = class+": "+word("error"), strain
		if word("outcome") != "canceled" {
			colour = bad
		}
	}
	return s.line(parts, tail, colour)
}

// requestLine is the line about a request that asked nothing of a model.
func (s *screen) requestLine(at time.Time, about facts) string {
	word := about.word
	parts := []part{
		{text: at.Format(time.TimeOnly), colour: faint},
		s.statusPart(about),
		{text: strings.TrimSpace(word("method") + " " + word("path"))},
		{text: word("model"), rank: 2},
		{text: word("account"), colour: faint, rank: 1},
	}
	var tail []string
	for _, key := range []string{"fault", "rule", "class", "error"} {
		if text := word(key); text != "" {
			tail = append(tail, text)
		}
	}
	return s.line(parts, strings.Join(tail, ": "), strain)
}

// statusPart is the HTTP status in its colour. A client that went away got none.
func (s *screen) statusPart(about facts) part {
	status := about.number("status")
	p := part{text: strconv.FormatInt(status, 10), colour: good, pad: 3}
	switch outcome := about.word("outcome"); {
	case outcome == "canceled":
		p.text, p.colour = "---", strain
	case outcome == "cut_off" || status >= 500:
		p.colour = bad
	case status >= 400:
		p.colour = strain
	case status == 0:
		p.text, p.colour = "---", faint
	}
	return p
}

// column is how wide a column is by now, at most limit.
func (s *screen) column(i int, text string, limit int) int {
	s.widest[i] = min(limit, max(s.widest[i], utf8.RuneCountInString(text)))
	return s.widest[i]
}

// indent is where a further line of a record begins: below the text, not below the time.
const indent = "          "

// line puts parts side by side in one row of the terminal, and the tail behind them: notes as far as there is room, the reason of a
// failure below them where there is not.
func (s *screen) line(parts []part, tail, tailColour string) string {
	width := s.width()
	if width == 0 {
		width = 1 << 16
	}
	for rank := 1; rank <= 4 && length(parts) > width; rank++ {
		for i := range parts {
			if parts[i].rank == rank {
				parts[i] = part{}
			}
		}
	}
	var b strings.Builder
	for _, p := range parts {
		if p.text == "" && p.pad == 0 {
			continue
		}
		text := p.text + strings.Repeat(" ", max(0, p.pad-utf8.RuneCountInString(p.text)))
		b.WriteString(s.paint(text, p.colour))
		b.WriteString("  ")
	}
	room := width - length(parts)
	if fits := utf8.RuneCountInString(tail) <= room; fits || tailColour == faint && room > 4 {
		b.WriteString(s.paint(cutText(tail, room), tailColour))
		tail = ""
	}
	line := strings.TrimRight(b.String(), " ")
	if !s.colour {
		line = cutText(line, width)
	}
	if tailColour != faint && tail != "" { // the reason of a failure is shown whole, below the line
		for _, folded := range foldWords(tail, max(width-len(indent), 20), false) {
			line += "\n" + indent + s.paint(folded, tailColour)
		}
	}
	return line
}

// length is how long a line of parts is, with the space behind the last.
func length(parts []part) (n int) {
	for _, p := range parts {
		if wide := max(p.pad, utf8.RuneCountInString(p.text)); wide > 0 {
			n += wide + 2
		}
	}
	return n
}

// cutText is as much of a text as fits, with a mark where something is missing.
func cutText(text string, room int) string {
	runes := []rune(text)
	if len(runes) <= room {
		return text
	}
	return string(runes[:max(room-1, 0)]) + "…"
}

// paint gives a text a colour, where there are colours.
func (s *screen) paint(text, colour string) string {
	if !s.colour || colour == "" || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// sentence is a record that is not about a call: its message, what it is about, and its error, folded at words.
func (s *screen) sentence(r slog.Record, order []string, about facts) string {
	text := printable(r.Message)
	var words []string
	for _, key := range order {
		if value := about.word(key); key != "error" && value != "" {
			words = append(words, key+" "+value)
		}
	}
	if len(words) > 0 {
		text += " (" + strings.Join(words, ", ") + ")"
	}
	if trouble := about.word("error"); trouble != "" {
		text += ": " + trouble
	}
	colour := ""
	switch {
	case r.Level >= slog.LevelError:
		colour = bad
	case r.Level >= slog.LevelWarn:
		colour = strain
	case r.Level < slog.LevelInfo:
		colour = faint
	}
	lines := []string{text}
	if width := s.width(); width > len(indent)+10 {
		lines = foldWords(text, width-len(indent), false)
	}
	for i := range lines {
		lines[i] = s.paint(lines[i], colour)
	}
	return s.paint(r.Time.Format(time.TimeOnly), faint) + "  " + strings.Join(lines, "\n"+indent)
}

// Facts are the attributes of a record.
type facts map[string]slog.Value

// word is what is known under a key, fit to be shown; empty: nothing.
func (f facts) word(key string) string {
	if f[key].Any() == nil {
		return ""
	}
	return printable(strings.ReplaceAll(f[key].String(), "\n", "; "))
}

func (f facts) number(key string) int64 {
	if f[key].Kind() == slog.KindInt64 {
		return f[key].Int64()
	}
	return 0
}

// seconds is a duration in three digits or so.
func (f facts) seconds(key string) string {
	if f[key].Kind() != slog.KindDuration {
		return ""
	}
	switch d := f[key].Duration(); {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	default:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
}

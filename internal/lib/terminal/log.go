package terminal

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// NewLogHandler returns a handler that writes one short line per call to a terminal, and other
// records as a sentence with their time. A width of 0 is unknown.
func NewLogHandler(out io.Writer, width func() int, colour bool, level slog.Leveler) slog.Handler {
	return &handler{level: level, write: (&screen{out: out, width: width, palette: Palette{colour}}).write}
}

// NewSentenceHandler returns a handler that passes warnings and errors on as sentences, for
// commands that a person waits for.
func NewSentenceHandler(emit func(sentence string)) slog.Handler {
	return &handler{level: slog.LevelWarn, write: func(r slog.Record, f *facts) error {
		emit(f.sentence(r.Message))
		return nil
	}}
}

// A handler is an slog.Handler that collects the attributes of a record. It ignores groups.
type handler struct {
	level slog.Leveler
	attrs []slog.Attr
	write func(slog.Record, *facts) error
}

func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.level, append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...), h.write}
}

func (h *handler) WithGroup(string) slog.Handler { return h }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	f := &facts{values: map[string]slog.Value{}}
	for _, a := range h.attrs {
		f.add(a)
	}
	r.Attrs(f.add)
	return h.write(r, f)
}

// Facts are the attributes of a record.
type facts struct {
	order  []string
	values map[string]slog.Value
}

func (f *facts) add(a slog.Attr) bool {
	if _, twice := f.values[a.Key]; !twice {
		f.order = append(f.order, a.Key)
	}
	f.values[a.Key] = a.Value
	return true
}

// text returns the value of a key in one printable line, empty if there is none.
func (f *facts) text(key string) string {
	if f.values[key].Any() == nil {
		return ""
	}
	return Printable(strings.ReplaceAll(f.values[key].String(), "\n", "; "))
}

func (f *facts) number(key string) int64 {
	if v := f.values[key]; v.Kind() == slog.KindInt64 {
		return v.Int64()
	}
	return 0
}

// duration returns a duration in about three digits, empty if there is none.
func (f *facts) duration(key string) string {
	if f.values[key].Kind() != slog.KindDuration {
		return ""
	}
	return Duration(f.values[key].Duration())
}

// sentence returns the message, the attributes in parentheses, and the error after a colon.
func (f *facts) sentence(message string) string {
	var words []string
	for _, key := range f.order {
		if value := f.text(key); key != "error" && value != "" {
			words = append(words, key+" "+value)
		}
	}
	text := Printable(message)
	if len(words) > 0 {
		text += " (" + strings.Join(words, ", ") + ")"
	}
	if reason := f.text("error"); reason != "" {
		text += ": " + reason
	}
	return text
}

// indent starts a further line of a record, below the text rather than below the time.
const indent = "          "

// A screen is the terminal that log lines are written to. It keeps the widths of columns, so that
// lines are aligned.
type screen struct {
	mu      sync.Mutex
	out     io.Writer
	width   func() int // 0 if unknown
	palette Palette
	widest  [3]int // of models, upstreams and clients so far
}

func (s *screen) write(r slog.Record, f *facts) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var line string
	switch {
	case f.text("outcome") != "" && strings.HasPrefix(r.Message, "call "):
		line = s.callLine(r.Time, f)
	case f.text("path") != "" && f.number("status") > 0:
		line = s.requestLine(r.Time, f)
	default:
		line = s.otherLine(r, f)
	}
	_, err := io.WriteString(s.out, line+"\n")
	return err
}

// A part is a piece of a line. Where the line is too long, parts are left out in the order of their
// rank.
type part struct {
	text   string
	colour string
	pad    int // to this width
	rank   int // 0 if it always stays
}

func (p part) size() int { return max(p.pad, utf8.RuneCountInString(p.text)) }

// callLine returns the line of a finished call.
func (s *screen) callLine(at time.Time, f *facts) string {
	model := f.text("model")
	if asked := f.text("model_asked"); asked != "" {
		model = asked + " → " + model
	}
	if operation := f.text("operation"); operation != "" && operation != "generate" {
		model = strings.TrimSpace(operation + " " + model)
	}
	upstream, client := f.text("upstream"), f.text("client")
	parts := []part{
		{text: at.Format(time.TimeOnly), colour: Faint},
		statusPart(f),
		{text: model, pad: s.column(0, model, 40)},
		{text: upstream, colour: Faint, pad: s.column(1, upstream, 16), rank: 2},
		{text: client, colour: Faint, pad: s.column(2, client, 16), rank: 1},
	}
	if input, output := f.number("input"), f.number("output"); input+output > 0 {
		parts = append(parts, part{text: Count(input).Short() + "→" + Count(output).Short(), pad: 10, rank: 3})
	}
	took := f.duration("duration")
	if first := f.duration("first_byte"); first != "" {
		took = first + "/" + took
	}
	parts = append(parts, part{text: took, pad: 11, rank: 4})
	tail, colour := f.text("notes"), Faint
	if class := f.text("class"); class != "" {
		tail, colour = class+": "+f.text("error"), Bad
		if f.text("outcome") == "canceled" {
			colour = Warning
		}
	}
	return s.line(parts, tail, colour)
}

// requestLine returns the line of a request that is not a call of a model.
func (s *screen) requestLine(at time.Time, f *facts) string {
	var tail []string
	for _, key := range []string{"fault", "rule", "class", "error"} {
		if text := f.text(key); text != "" {
			tail = append(tail, text)
		}
	}
	return s.line([]part{
		{text: at.Format(time.TimeOnly), colour: Faint},
		statusPart(f),
		{text: strings.TrimSpace(f.text("method") + " " + f.text("path"))},
		{text: f.text("model"), rank: 2},
		{text: f.text("account"), colour: Faint, rank: 1},
	}, strings.Join(tail, ": "), Warning)
}

// statusPart returns the HTTP status in its colour. A client that went away got none.
func statusPart(f *facts) part {
	status := f.number("status")
	p := part{text: strconv.FormatInt(status, 10), colour: Good, pad: 3}
	switch outcome := f.text("outcome"); {
	case outcome == "canceled":
		p.text, p.colour = "---", Warning
	case outcome == "cut_off" || status >= 500:
		p.colour = Bad
	case status >= 400:
		p.colour = Warning
	case status == 0:
		p.text, p.colour = "---", Faint
	}
	return p
}

// column returns the width of a column so far, at most limit.
func (s *screen) column(i int, text string, limit int) int {
	s.widest[i] = min(limit, max(s.widest[i], utf8.RuneCountInString(text)))
	return s.widest[i]
}

// line puts parts side by side, and the tail behind them: notes as far as there is room, the reason
// of a failure on lines of its own where there is not.
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
	line := ""
	for _, p := range parts {
		if p.size() > 0 {
			line += s.palette.Paint(p.text+strings.Repeat(" ", p.size()-utf8.RuneCountInString(p.text)), p.colour) + "  "
		}
	}
	room := width - length(parts)
	if fits := utf8.RuneCountInString(tail) <= room; fits || tailColour == Faint && room > 4 {
		line += s.palette.Paint(Shorten(tail, room), tailColour)
		tail = ""
	}
	line = strings.TrimRight(line, " ")
	if !s.palette.on {
		line = Shorten(line, width)
	}
	if tailColour != Faint && tail != "" {
		for _, folded := range Fold(tail, max(width-len(indent), 20)) {
			line += "\n" + indent + s.palette.Paint(folded, tailColour)
		}
	}
	return line
}

// length returns the length of a line of parts, including the gap after the last.
func length(parts []part) (n int) {
	for _, p := range parts {
		if p.size() > 0 {
			n += p.size() + gap
		}
	}
	return n
}

// Shorten cuts a text to a length, and marks the cut with an ellipsis.
func Shorten(text string, length int) string {
	runes := []rune(text)
	if len(runes) <= length {
		return text
	}
	return string(runes[:max(length-1, 0)]) + "…"
}

// otherLine returns a record that is not about a request: its time and a sentence, folded.
func (s *screen) otherLine(r slog.Record, f *facts) string {
	colour := ""
	switch {
	case r.Level >= slog.LevelError:
		colour = Bad
	case r.Level >= slog.LevelWarn:
		colour = Warning
	case r.Level < slog.LevelInfo:
		colour = Faint
	}
	lines := []string{f.sentence(r.Message)}
	if width := s.width(); width > len(indent)+10 {
		lines = Fold(lines[0], width-len(indent))
	}
	for i := range lines {
		lines[i] = s.palette.Paint(lines[i], colour)
	}
	return s.palette.Paint(r.Time.Format(time.TimeOnly), Faint) + "  " + strings.Join(lines, "\n"+indent)
}

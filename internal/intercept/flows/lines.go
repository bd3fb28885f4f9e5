package flows

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"perigee/internal/lib/terminal"
)

// lineQueue is the number of flows that wait for a reader of the lines that has stopped reading.
const lineQueue = 16384

// LinesOptions configure Lines.
type LinesOptions struct {
	Out    io.Writer
	JSON   bool       // one object per line
	Width  func() int // width of the terminal; lines are not cut if it returns 0
	Colour bool
	Zone   *time.Location // time zone of the times in lines for people
}

// Lines prints a line for each flow. Flows never wait for it: if the lines are not read, flows
// after the first thousands are left out, and counted.
type Lines struct {
	LinesOptions
	queue  chan Flow
	broken chan struct{}
	ended  chan struct{}

	mu     sync.Mutex
	closed bool
	missed int
}

// NewLines starts printing. The caller must close the Lines.
func NewLines(o LinesOptions) *Lines {
	l := &Lines{LinesOptions: o, queue: make(chan Flow, lineQueue), broken: make(chan struct{}), ended: make(chan struct{})}
	go l.run()
	return l
}

// add prints a flow.
func (l *Lines) add(f Flow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	select {
	case l.queue <- f:
	default:
		l.missed++
	}
}

// Broken returns a channel that is closed when lines cannot be written any more, because their
// reader has closed.
func (l *Lines) Broken() <-chan struct{} { return l.broken }

// Close waits until the lines are written, up to the given time, and returns the number of lines
// that were left out.
func (l *Lines) Close(patience time.Duration) (missed int) {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	missed = l.missed
	l.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-l.ended:
	case <-timer.C:
		missed += len(l.queue)
	}
	return missed
}

func (l *Lines) run() {
	defer close(l.ended)
	out := bufio.NewWriter(l.Out)
	for f := range l.queue {
		_, _ = out.WriteString(l.line(f))
		if len(l.queue) > 0 && out.Available() > 0 {
			continue
		}
		if out.Flush() != nil {
			close(l.broken)
			for range l.queue { // until the queue is closed
			}
			return
		}
	}
}

func (l *Lines) line(f Flow) string {
	if !l.JSON {
		return l.text(f)
	}
	f.Time = f.Time.UTC()
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	if err := out.Encode(f); err != nil {
		return ""
	}
	return b.String()
}

// minimumAddress is the minimum number of columns for the URL. A narrower terminal shows fewer
// other columns.
const minimumAddress = 40

// text returns the line for a person. The URL comes last, because it is long, so that the other
// columns are aligned.
func (l *Lines) text(f Flow) string {
	status, colour := fmt.Sprintf("%3d", f.Status), terminal.Good
	switch {
	case f.Status == 0:
		status, colour = "---", terminal.Bad
	case f.Error != "" || f.Status >= 500:
		colour = terminal.Bad
	case f.Status >= 400:
		colour = terminal.Warning
	case f.Method == http.MethodConnect:
		colour = terminal.Faint
	}
	first := "-"
	if f.Status != 0 && f.Method != http.MethodConnect {
		first = formatMS(f.FirstByteMS)
	}
	head := f.Time.In(l.Zone).Format(time.TimeOnly)
	received, all, method := terminal.Size(f.ResponseBytes), formatMS(f.DurationMS), terminal.Printable(f.Method)
	rest := fmt.Sprintf("  %9s  %9s  %7s  %7s  %-8s  %-7s ", terminal.Size(f.RequestBytes), received, first, all, f.HTTP, method)
	address := terminal.Printable(f.URL)
	if width := l.Width(); width > 0 {
		room := func() int { return width - utf8.RuneCountInString(head+"  "+status+rest) }
		if room() < minimumAddress {
			rest = fmt.Sprintf("  %9s  %7s  %-7s ", received, all, method)
		}
		address = terminal.Shorten(address, max(room(), minimumAddress/2))
	}
	line := l.paint(head, terminal.Faint) + "  " + l.paint(status, colour) + rest + address
	if f.Error != "" {
		line += "  " + l.paint(terminal.Printable(f.Error), terminal.Bad)
	}
	return line + "\n"
}

func (l *Lines) paint(text, colour string) string {
	if !l.Colour {
		return text
	}
	return terminal.Paint(text, colour)
}

func formatMS(ms float64) string {
	return terminal.Duration(time.Duration(ms * float64(time.Millisecond)))
}

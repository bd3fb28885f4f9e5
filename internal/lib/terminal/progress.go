package terminal

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// animates reports whether a stream is a terminal on which a line may be drawn again and again. The
// log of a CI run, and a terminal that obeys no control sequences, are not.
func animates(stream any) bool {
	switch strings.ToLower(os.Getenv("CI")) {
	case "", "0", "false":
		return controllable() && Is(stream)
	}
	return false
}

const (
	frameTime  = 100 * time.Millisecond // also the time before a step is shown, so that a short one does not flash up
	plainPause = 10 * time.Second       // between two lines about the same step
	clearLine  = "\r\x1b[K"
)

var frames = [...]string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// A Progress shows the steps of a command while a person waits. A terminal has one line that is
// drawn again and again and vanishes at the end. Another stream gets a line for each step, and one
// for a change within a step every ten seconds at most. The zero value, and a nil Progress, show
// nothing. All methods may be called at the same time.
type Progress struct {
	out   io.Writer
	plain func(text string) // writes to a stream that is not a terminal; nil writes nothing
	stop  func()            // nil if nothing is drawn
	ended chan struct{}     // nothing is drawn any more

	mu      sync.Mutex
	text    string    // of the step; empty if there is none
	began   time.Time // the step
	written time.Time // the last plain line
	frame   int
	drawn   bool // the line is on the screen
}

// NewProgress returns a progress for a stream. Streams on which nothing can be drawn get the lines
// of plain, which may be nil. The line is removed when ctx ends, and by Close, which has to be
// called.
func NewProgress(ctx context.Context, out io.Writer, plain func(text string)) *Progress {
	p := &Progress{out: out, plain: plain, ended: make(chan struct{})}
	if !animates(out) {
		close(p.ended)
		return p
	}
	ctx, p.stop = context.WithCancel(ctx)
	go p.run(ctx)
	return p
}

// run draws the line until ctx ends, and then removes it.
func (p *Progress) run(ctx context.Context) {
	defer close(p.ended)
	ticker := time.NewTicker(frameTime)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			p.mu.Lock()
			p.clear()
			p.mu.Unlock()
			return
		case <-ticker.C:
			p.mu.Lock()
			p.frame++
			p.draw()
			p.mu.Unlock()
		}
	}
}

// Step begins a step, and ends the previous one.
func (p *Progress) Step(format string, args ...any) { p.set(true, fmt.Sprintf(format, args...)) }

// Update changes the text of the present step.
func (p *Progress) Update(format string, args ...any) { p.set(false, fmt.Sprintf(format, args...)) }

func (p *Progress) set(begins bool, text string) {
	if p == nil || p.ended == nil {
		return
	}
	text = Printable(strings.ReplaceAll(text, "\n", " "))
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if begins || p.text == "" {
		p.began = now
	}
	p.text = text
	if p.stop == nil && p.plain != nil && (begins || now.Sub(p.written) >= plainPause) {
		p.written = now
		p.plain(text)
	}
}

// Pause ends the step: until the next one, nothing is shown. The person may be asked for something
// then.
func (p *Progress) Pause() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = ""
	p.clear()
}

// Around removes the line while a function writes to the stream, or to another stream on the same
// terminal.
func (p *Progress) Around(write func()) {
	if p == nil {
		write()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	write()
}

// Close removes the line, and waits until nothing more is drawn.
func (p *Progress) Close() {
	if p == nil || p.ended == nil {
		return
	}
	if p.stop != nil {
		p.stop()
	}
	<-p.ended
	p.Pause()
}

// draw writes the line, if there is a step that is older than a moment.
func (p *Progress) draw() {
	age := time.Since(p.began)
	if p.text == "" || age < frameTime {
		return
	}
	line := p.text
	if age >= 2*time.Second {
		line += "  " + Span(age)
	}
	width := Width(p.out)
	if width == 0 { // the terminal is gone
		return
	}
	mark := frames[p.frame%len(frames)]
	line = Shorten(line, max(width-3, 0)) // a line as wide as the terminal may be wrapped
	if WantsColour() {
		mark = Paint(mark, Good)
	}
	p.drawn = true
	_, _ = io.WriteString(p.out, clearLine+mark+" "+line)
}

func (p *Progress) clear() {
	if p.drawn {
		p.drawn = false
		_, _ = io.WriteString(p.out, clearLine)
	}
}

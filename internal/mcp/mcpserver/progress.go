package mcpserver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"perigee/internal/mcp/ask"
)

const (
	progressPause = 250 * time.Millisecond // between notifications
	// after which one is sent without a change, so that the client keeps waiting
	progressRepeat = 10 * time.Second
	progressTail   = 200 // bytes of the text in a notification
)

// A reporter sends progress notifications for a call if its client has requested them. A slow
// client delays notifications, never the answer: only the newest state is sent.
type reporter struct {
	send func(value float64, message string)

	mu      sync.Mutex
	state   ask.Progress
	changed chan struct{} // has a value when state was not sent yet
	stop    chan struct{}
	stopped chan struct{}
	value   float64
}

// newReporter returns a reporter, which must be closed. It does nothing if the client has not sent
// a progress token.
func newReporter(ctx context.Context, c *call) *reporter {
	token := c.params.GetProgressToken()
	if token == nil {
		return &reporter{}
	}
	r := &reporter{changed: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{})}
	r.send = func(value float64, message string) {
		_ = c.client.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: value, Message: message})
	}
	go r.loop()
	return r
}

func (r *reporter) update(p ask.Progress) {
	if r.send == nil {
		return
	}
	r.mu.Lock()
	r.state = p
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// close sends the last state if it was not sent yet. No notification follows it.
func (r *reporter) close() {
	if r.send != nil {
		close(r.stop)
		<-r.stopped
	}
}

func (r *reporter) loop() {
	defer close(r.stopped)
	for {
		repeat := time.NewTimer(progressRepeat)
		select {
		case <-r.changed:
			r.notify()
		case <-repeat.C:
			r.notify()
		case <-r.stop:
			repeat.Stop()
			select {
			case <-r.changed:
				r.notify()
			default:
			}
			return
		}
		repeat.Stop()
		pause := time.NewTimer(progressPause)
		select {
		case <-pause.C:
		case <-r.stop:
			pause.Stop()
		}
	}
}

// notify sends the state. The value is the length of the text, and grows even if the text does
// not.
func (r *reporter) notify() {
	r.mu.Lock()
	p := r.state
	r.mu.Unlock()
	r.value = max(r.value+1, float64(len(p.Text)))
	r.send(r.value, progressMessage(p))
}

// progressMessage returns the end of the text, on one line.
func progressMessage(p ask.Progress) string {
	if p.Text == "" {
		if p.Steps > 0 {
			return fmt.Sprintf("working, step %d", p.Steps)
		}
		return "working"
	}
	tail, cut := p.Text, ""
	if len(tail) > progressTail {
		tail, cut = tail[len(tail)-progressTail:], "…"
		for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
	}
	return cut + strings.Join(strings.Fields(tail), " ")
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	streams     = 200
	streamPath  = "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse"
	streamText  = "[[text: " + longText + "]] [[chunks: 20]] [[pace: 50ms]]"
	longText    = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty"
	streamBody  = `{"contents":[{"role":"user","parts":[{"text":"` + streamText + `"}]}]}`
	streamSteps = 5 * time.Millisecond // between the starts of two calls
)

// A fate is what became of a streaming call.
type fate struct {
	begun bool // a byte of the answer has come
	err   error
}

// end sends 200 streaming calls through a balancer and ends one replica when half of them have
// begun. Told to end, it lets everybody finish; killed, it takes down what it had begun to say and
// nothing else.
func (t *team) end(ctx context.Context, out io.Writer, kill bool) error {
	b, err := newBalancer(t.replicas[0].url, t.replicas[1].url)
	if err != nil {
		return err
	}
	defer b.close()
	if err := eventually(ctx, 15*time.Second, "both replicas answer", func() bool {
		for _, r := range t.replicas {
			if status, _, err := post(ctx, r.url+chatPath, chat("hello")); err != nil || status != http.StatusOK {
				return false
			}
		}
		return true
	}); err != nil {
		return err
	}
	t.ledger.think.Store(true)
	defer t.ledger.think.Store(false)
	recorded, err := t.database.number(ctx, "SELECT count(*) FROM calls")
	if err != nil {
		return err
	}

	var begun atomic.Int64
	half := make(chan struct{})
	fates := make([]fate, streams)
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() {
			fates[i] = stream(ctx, b.url, time.Duration(i)*streamSteps, func() {
				if begun.Add(1) == streams/2 {
					close(half)
				}
			})
		})
	}
	select {
	case <-half:
	case <-ctx.Done():
		return ctx.Err()
	}
	leaving := t.replicas[0]
	t.replicas[0] = nil
	signal := syscall.SIGTERM
	if kill {
		signal = syscall.SIGKILL
	}
	if err := leaving.process.cmd.Process.Signal(signal); err != nil {
		return err
	}
	_ = leaving.process.cmd.Wait()
	all.Wait()

	broken, lost := 0, []error{}
	for _, f := range fates {
		switch {
		case f.err != nil && f.begun:
			broken++
		case f.err != nil:
			lost = append(lost, f.err)
		}
	}
	fmt.Fprintf(out, "      %d calls; the other replica had to answer %d, of which %d had been sent; %d broke off after they had begun, %d before\n",
		streams, b.moved.Load(), b.sent.Load(), broken, len(lost))
	switch {
	case len(lost) > 0:
		return fmt.Errorf("%d calls failed that had not begun to stream: %w", len(lost), lost[0])
	case broken > 0 && !kill:
		return fmt.Errorf("%d calls broke off although the replica was only told to end", broken)
	case kill && (broken == 0 || b.sent.Load() == 0):
		return errors.New("the replica was killed at a time that proves nothing")
	}
	return t.settled(ctx, recorded+streams, kill)
}

// settled looks at what is recorded in the end: all calls, and none of them open.
func (t *team) settled(ctx context.Context, want int, kill bool) error {
	var open, total int
	err := eventually(ctx, 90*time.Second, "no call is open any more", func() bool {
		var err error
		if open, err = t.database.number(ctx, "SELECT count(*) FROM calls WHERE outcome = 'open'"); err != nil {
			return false
		}
		total, err = t.database.number(ctx, "SELECT count(*) FROM calls")
		return err == nil && open == 0 && (total >= want || kill) // a killed one may lose its last moment
	})
	if err != nil {
		return fmt.Errorf("%w: %d calls are recorded, %d of them open", err, total, open)
	}
	failed, err := t.database.number(ctx, "SELECT count(*) FROM calls WHERE stream AND outcome <> 'done'")
	if err == nil && failed > 0 && !kill {
		err = fmt.Errorf("%d calls are recorded as something else than done", failed)
	}
	return err
}

// stream makes one call after a while and reads it to its end.
func stream(ctx context.Context, base string, after time.Duration, begun func()) (f fate) {
	if f.err = pause(ctx, after); f.err != nil {
		return f
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+streamPath, strings.NewReader(streamBody))
	if err != nil {
		return fate{err: err}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fate{err: err}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(resp.Body)
		return fate{err: fmt.Errorf("status %d: %s", resp.StatusCode, lastBytes(string(said), 300))}
	}
	finished := false
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !f.begun {
			f.begun = true
			begun()
		}
		finished = finished || strings.Contains(lines.Text(), `"finishReason"`)
	}
	if f.err = lines.Err(); f.err == nil && !finished {
		f.err = errors.New("the stream ended without an end")
	}
	return f
}

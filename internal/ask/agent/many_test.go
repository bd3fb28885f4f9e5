//go:build unix

package agent

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"perigee"
	"perigee/internal/ask"
	"perigee/internal/perigeetest"
)

// Twenty asks at once, some of them rounds in one conversation, all get their own answers.
func TestTwentyAsksAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, "page=4")
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			conversation := ""
			for round := range 2 {
				want := fmt.Sprintf("answer %d of ask %d, with some words", round, i)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				var bad atomic.Value
				got, err := r.Ask(ctx, ask.Request{Prompt: "[[text: " + want + "]] [[chunks: 4]] [[pace: 5ms]]", Conversation: conversation}, func(p ask.Progress) {
					if !strings.HasPrefix(want, p.Text) {
						bad.Store(p.Text)
					}
				})
				cancel()
				if err != nil || got.Status != ask.Done || got.Text != want || bad.Load() != nil {
					t.Errorf("ask %d: %+v, %v, progress %v", i, got, err, bad.Load())
				}
				conversation = got.Conversation
			}
		})
	}
	wait.Wait()
}

// descriptors counts the open files of this process; -1: that is not known.
func descriptors() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(list)
}

// A thousand asks leave nothing behind.
func TestAThousandAsksLeaveNothing(t *testing.T) {
	perigeetest.Slow(t)
	r := newRig(t, "")
	one := func(i int) {
		want := fmt.Sprintf("answer %d", i)
		if got, err := r.Ask(t.Context(), ask.Request{Prompt: "[[text: " + want + "]]"}, nil); err != nil || got.Status != ask.Done || got.Text != want {
			t.Errorf("ask %d: %+v, %v", i, got, err)
		}
	}
	const atOnce, each = 10, 100
	round := func(each int) {
		var wait sync.WaitGroup
		for worker := range atOnce {
			wait.Go(func() {
				for i := range each {
					one(worker*each + i)
				}
			})
		}
		wait.Wait()
	}
	round(2)
	settled := func() (goroutines, files int) { // connections end a moment after their asks
		for end := time.Now().Add(20 * time.Second); ; {
			goroutines, files = runtime.NumGoroutine(), descriptors()
			if time.Now().After(end) || !perigee.Pause(t.Context(), 100*time.Millisecond) {
				return goroutines, files
			}
			if g, f := runtime.NumGoroutine(), descriptors(); g == goroutines && f == files {
				return g, f
			}
		}
	}
	goroutines, files := settled()
	begin := time.Now()
	round(each)
	t.Logf("%d asks in %s", atOnce*each, time.Since(begin))
	nowGoroutines, nowFiles := settled()
	if nowGoroutines > goroutines+100 || nowFiles > files+100 { // the stand-in and its cloud keep some connections
		t.Errorf("%d goroutines and %d files, before %d and %d", nowGoroutines, nowFiles, goroutines, files)
	}
	if len(r.busy) > 0 {
		t.Errorf("%d conversations are busy", len(r.busy))
	}
}

// An ask whose language server is killed in the middle ends with the reason, and its conversation can go on.
func TestKilledInTheMiddle(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	r := newRig(t, "")
	release := r.hold(t)
	killed := false
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := r.Ask(ctx, ask.Request{Prompt: tenWords}, func(p ask.Progress) {
		if p.Text != "" && !killed {
			killed = true
			if pid := r.sup.Status().PID; pid > 1 { // 0 is the group of this process
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	if err != nil || !killed || got.Status != ask.Failed || got.Conversation == "" || got.Error.Class != perigee.ClassUnavailable || !strings.Contains(got.Error.Message, "restarted") {
		t.Fatalf("got %+v, %+v, %v", got, got.Error, err)
	}
	release()
	if again := r.must(t, ask.Request{Prompt: "[[text: well again]]", Conversation: got.Conversation}); again.Status != ask.Done || again.Text != "well again" {
		t.Errorf("the next ask: %+v", again)
	}
}

//go:build unix

package ask

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
	"perigee/internal/testing/perigeetest"
	"perigee/internal/testing/perigeetest/await"
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
				got, err := r.Ask(ctx, Request{Prompt: "[[text: " + want + "]] [[chunks: 4]] [[pace: 5ms]]", Conversation: conversation}, func(p Progress) {
					if !strings.HasPrefix(want, p.Text) {
						bad.Store(p.Text)
					}
				})
				cancel()
				if err != nil || got.Status != Done || got.Text != want || bad.Load() != nil {
					t.Errorf("ask %d: %+v, %v, progress %v", i, got, err, bad.Load())
				}
				conversation = got.Conversation
			}
		})
	}
	await.Return(t, wait.Wait, "all asks")
}

// descriptors counts the open files of this process; -1: that is not known.
func descriptors() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(list)
}

// Asks leave nothing behind: a second round of them leaves no more than the first one. Not
// parallel: it counts what the process has.
func TestAsksLeaveNothing(t *testing.T) {
	r := newRig(t, "")
	one := func(i int) {
		want := fmt.Sprintf("answer %d", i)
		if got, err := r.Ask(t.Context(), Request{Prompt: "[[text: " + want + "]]"}, nil); err != nil || got.Status != Done || got.Text != want {
			t.Errorf("ask %d: %+v, %v", i, got, err)
		}
	}
	const atOnce = 10
	each := 5
	if !testing.Short() {
		each = 50
	}
	round := func() {
		var wait sync.WaitGroup
		for worker := range atOnce {
			wait.Go(func() {
				for i := range each {
					one(worker*each + i)
				}
			})
		}
		await.Return(t, wait.Wait, "all asks")
	}
	round()
	goroutines, files, spare := runtime.NumGoroutine(), descriptors(), atOnce*each/2 // the stand-in and its cloud keep some connections
	round()
	await.Until(t, "no more goroutines and files than before", func() bool { // connections end a moment after their asks
		return runtime.NumGoroutine() <= goroutines+spare && descriptors() <= files+spare
	})
	r.busy.Range(func(conversation, _ any) bool {
		t.Errorf("the conversation %v is busy", conversation)
		return false
	})
}

// An ask whose language server is killed in the middle ends with the reason, and its conversation
// can go on.
func TestKilledInTheMiddle(t *testing.T) {
	perigeetest.Slow(t)
	t.Parallel()
	r := newRig(t, "")
	release := r.hold(t)
	killed := false
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := r.Ask(ctx, Request{Prompt: tenWords}, func(p Progress) {
		if p.Text != "" && !killed {
			killed = true
			if pid := r.sup.Status().PID; pid > 1 { // 0 is the group of this process
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	if err != nil || !killed || got.Status != Failed || got.Conversation == "" || got.Error.Class != perigee.ClassUnavailable || !strings.Contains(got.Error.Message, "restarted") {
		t.Fatalf("got %+v, %+v, %v", got, got.Error, err)
	}
	release()
	if again := r.must(t, Request{Prompt: "[[text: well again]]", Conversation: got.Conversation}); again.Status != Done || again.Text != "well again" {
		t.Errorf("the next ask: %+v", again)
	}
}

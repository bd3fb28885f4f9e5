package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/langserver/probe"
)

// A bubble is a supervisor without processes, for tests in synctest. Each start asks script what
// the process does.
type bubble struct {
	*Supervisor
	binary string
	begun  time.Time

	mu     sync.Mutex
	starts []time.Duration // since the beginning
	last   *child
	argv   []string
}

// newBubble starts the supervisor of a bubble. script is given the number of the start. It returns
// how the process ends at once, or "" if it goes on.
func newBubble(t *testing.T, script func(start int) string, change func(*Options)) *bubble {
	t.Helper()
	dir := t.TempDir()
	b := &bubble{binary: filepath.Join(dir, "binary"), begun: time.Now()}
	if err := os.WriteFile(b.binary, []byte("first"), 0o700); err != nil {
		t.Fatal(err)
	}
	sum, err := probe.Hash(b.binary)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Name: "headless", Command: []string{b.binary}, Home: filepath.Join(dir, "home"), StartTimeout: time.Minute,
		Probe:  probe.Result{Path: b.binary, SHA256: sum, Version: "1", Profile: probe.Hub, Flags: []string{"csrf_token", "standalone"}},
		Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	b.Supervisor = New(o)
	b.measure = func(int) int64 { return 1001 }
	b.spawn = func(l launch) (*child, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.starts = append(b.starts, time.Since(b.begun))
		c := &child{pid: 1<<30 + len(b.starts), out: l.out, hung: make(chan string, 1), done: make(chan struct{})}
		end := sync.OnceFunc(func() { close(c.done) })
		c.terminate = func() { c.exit = "signal: terminated"; end() }
		c.kill = end
		b.last, b.argv = c, l.argv
		if exit := script(len(b.starts)); exit != "" {
			c.exit, c.failed = exit, true
			end()
			return c, nil
		}
		go func() { _, _ = l.out.Write([]byte("listening on random port at 1 for HTTP\n")) }()
		return c, nil
	}
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Stop(context.Background()) })
	return b
}

// die ends the process.
func (b *bubble) die(exit string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last.exit, b.last.failed = exit, true
	b.last.kill()
}

func (b *bubble) started() []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.starts)
}

func dies(int) string  { return "exit status 1" }
func works(int) string { return "" }

func TestPausesBetweenRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, dies, nil)
		_, err := b.Wait(t.Context())
		want := []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond, 3500 * time.Millisecond}
		if got := b.started(); !slices.Equal(got, want) {
			t.Errorf("started at %v", got)
		}
		failure := perigee.AsError(err)
		if failure.Class != perigee.ClassUnavailable || failure.Retry != time.Minute || !strings.Contains(failure.Message, "exit status 1") {
			t.Errorf("got %#v", failure)
		}
		if b.State() != Failed {
			t.Errorf("state %s", b.State())
		}
	})
}

func TestEndIsAskedForBeforeItIsForced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type step struct {
			what string
			at   time.Duration
		}
		var steps []step
		var asked time.Time
		note := func(what string) { steps = append(steps, step{what, time.Since(asked)}) }
		b := newBubble(t, works, func(o *Options) {
			o.Exit = func(ctx context.Context, _ Endpoint) error {
				note("exit")
				<-ctx.Done()
				return ctx.Err()
			}
		})
		synctest.Wait()
		kill := b.last.kill
		b.last.terminate = func() { note("SIGTERM") }
		b.last.kill = func() { note("SIGKILL"); kill() }
		asked = time.Now()
		_ = b.Stop(t.Context())
		if want := []step{{"exit", 0}, {"SIGTERM", time.Second}, {"SIGKILL", 3 * time.Second}}; !slices.Equal(steps, want) {
			t.Errorf("got %v", steps)
		}
	})
}

func TestOneTryPerMinuteWhenACallAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heal := false
		b := newBubble(t, func(int) string {
			if heal {
				return ""
			}
			return "exit status 1"
		}, nil)
		_, _ = b.Wait(t.Context())
		time.Sleep(59 * time.Second)
		if _, err := b.Wait(t.Context()); perigee.AsError(err).Retry != time.Second || len(b.started()) != 4 {
			t.Errorf("got %v after %d starts", err, len(b.started()))
		}
		time.Sleep(time.Hour)
		if len(b.started()) != 4 {
			t.Errorf("%d starts without a call", len(b.started()))
		}
		if _, err := b.Wait(t.Context()); err == nil || len(b.started()) != 5 {
			t.Errorf("got %v after %d starts", err, len(b.started()))
		}
		if _, err := b.Wait(t.Context()); err == nil || len(b.started()) != 5 {
			t.Errorf("got %v after %d starts", err, len(b.started()))
		}
		time.Sleep(time.Minute)
		heal = true
		if _, err := b.Wait(t.Context()); err != nil || b.State() != Ready {
			t.Errorf("got %v", err)
		}
		// It has its restarts again.
		for range 3 {
			b.die("exit status 9")
			if _, err := b.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
	})
}

func TestRestartsGrowOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, works, nil)
		for range 10 {
			if _, err := b.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(25 * time.Second) // three crashes in 75 s
			b.die("exit status 2")
			synctest.Wait()
		}
		if _, err := b.Wait(t.Context()); err != nil || b.Status().Restarts != 10 {
			t.Errorf("got %v, %+v", err, b.Status())
		}
	})
}

func TestCrashesOfAReadyProcessAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, works, nil)
		for i := range 4 {
			if _, err := b.Wait(t.Context()); err != nil {
				t.Fatalf("crash %d: %v", i, err)
			}
			synctest.Wait()
			b.die("exit status 2")
			synctest.Wait()
		}
		if b.State() != Failed || len(b.started()) != 4 {
			t.Errorf("state %s after %d starts", b.State(), len(b.started()))
		}
		// A command is another chance.
		b.Restart("by command")
		if synctest.Wait(); b.State() != Ready {
			t.Errorf("state %s", b.State())
		}
	})
}

func TestSlowFailuresAreLimitedAsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, works, func(o *Options) {
			o.Ready = func(context.Context, Endpoint) error { return errors.New("status 503") }
		})
		_, err := b.Wait(t.Context())
		if failure := perigee.AsError(err); failure.Class != perigee.ClassUnavailable || failure.Retry == 0 ||
			!strings.Contains(err.Error(), "was not ready within 1m0s") {
			t.Errorf("got %v", err)
		}
		time.Sleep(10 * time.Minute)
		if b.State() != Failed || len(b.started()) != 4 {
			t.Errorf("state %s after %d starts", b.State(), len(b.started()))
		}
		if _, err := b.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "status 503") {
			t.Errorf("got %v", err)
		}
	})
}

func TestPlannedRestartsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, works, nil)
		for range 20 {
			synctest.Wait()
			b.Restart("by command")
		}
		synctest.Wait()
		if status := b.Status(); status.State != Ready || status.Restarts != 20 || time.Since(b.begun) > time.Minute {
			t.Errorf("got %+v after %v", status, time.Since(b.begun))
		}
	})
}

func TestHungProcessIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := newFlag(false)
		var beats atomic.Int64
		b := newBubble(t, works, func(o *Options) {
			o.Heartbeat = func(ctx context.Context, _ Endpoint) error {
				beats.Add(1)
				if hang.get() {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		})
		time.Sleep(time.Minute)
		if n := beats.Load(); n < 11 || n > 12 || b.Status().Restarts != 0 {
			t.Errorf("%d heartbeats, %+v", n, b.Status())
		}
		hang.set(true)
		time.Sleep(22 * time.Second)
		hang.set(false)
		status := b.Status()
		if status.Restarts != 1 || !strings.HasPrefix(status.LastExit, "it hangs: 3 heartbeats in a row failed") {
			t.Errorf("got %+v", status)
		}
	})
}

// A process with calls has a minute more. It is given up when the calls have ended, or after that
// minute.
func TestBusyProcessMayMissHeartbeats(t *testing.T) {
	for _, stays := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			busy, hang := newFlag(true), newFlag(false)
			b := newBubble(t, works, func(o *Options) {
				o.Busy = busy.get
				o.Heartbeat = func(context.Context, Endpoint) error {
					if hang.get() {
						return errors.New("it is slow")
					}
					return nil
				}
			})
			time.Sleep(time.Second)
			hang.set(true)
			time.Sleep(40 * time.Second)
			if status := b.Status(); status.Restarts != 0 {
				t.Fatalf("given up while calls are running: %+v", status)
			}
			if !stays {
				hang.set(false)
				time.Sleep(10 * time.Second)
				hang.set(true)
				time.Sleep(40 * time.Second)
				busy.set(false)
				time.Sleep(6 * time.Second)
			} else {
				time.Sleep(40 * time.Second)
			}
			hang.set(false)
			if status := b.Status(); status.Restarts != 1 || !strings.HasPrefix(status.LastExit, "it hangs: ") {
				t.Errorf("calls stay %v: %+v", stays, status)
			}
		})
	}
}

func TestRecheckRestartsWhatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := newFlag(false)
		b := newBubble(t, works, func(o *Options) {
			o.Heartbeat = func(context.Context, Endpoint) error {
				if broken.get() {
					return errors.New("connection refused")
				}
				return nil
			}
		})
		synctest.Wait()
		if _, err := b.Recheck(t.Context()); err != nil || len(b.started()) != 1 {
			t.Errorf("got %v after %d starts", err, len(b.started()))
		}
		broken.set(true)
		if _, err := b.Recheck(t.Context()); err != nil || len(b.started()) != 2 {
			t.Errorf("got %v after %d starts", err, len(b.started()))
		}
	})
}

func TestChangedBinaryIsProbedAndRestartedWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := newFlag(true)
		probed := 0
		b := newBubble(t, works, func(o *Options) {
			o.Busy = busy.get
			old := o.Probe
			o.Reprobe = func(context.Context) (probe.Result, error) {
				probed++
				sum, err := probe.Hash(old.Path)
				return probe.Result{Path: old.Path, SHA256: sum, Version: "2", Profile: probe.Hub, Flags: []string{"standalone"}}, err
			}
		})
		synctest.Wait()
		if !slices.Contains(b.argv, "--csrf_token") {
			t.Errorf("got %q", b.argv)
		}
		// The same content, written again.
		later := time.Now().Add(time.Second)
		if err := os.Chtimes(b.binary, later, later); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		busy.set(false)
		time.Sleep(time.Minute)
		if b.Status().Restarts != 0 {
			t.Errorf("restarted for a file with the same content: %+v", b.Status())
		}
		busy.set(true)
		replace(t, b.binary, "second")
		time.Sleep(time.Minute)
		if b.Status().Restarts != 0 {
			t.Errorf("restarted while busy: %+v", b.Status())
		}
		busy.set(false)
		time.Sleep(inspectEvery)
		synctest.Wait()
		status := b.Status()
		if status.State != Ready || status.Restarts != 1 || status.Version != "2" || probed != 1 ||
			!strings.HasPrefix(status.LastExit, "restarted: the binary has changed on disk") {
			t.Errorf("got %+v after %d probes", status, probed)
		}
		if slices.Contains(b.argv, "--csrf_token") {
			t.Errorf("the flags are still those of the old binary: %q", b.argv)
		}
		time.Sleep(time.Minute)
		if b.Status().Restarts != 1 {
			t.Errorf("restarted again: %+v", b.Status())
		}
	})
}

func TestMissingBinaryFailsWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, works, nil)
		synctest.Wait()
		if err := os.Remove(b.binary); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // the process that runs is left alone
		if b.Status().Restarts != 0 {
			t.Errorf("got %+v", b.Status())
		}
		b.die("exit status 1")
		synctest.Wait()
		if _, err := b.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "the binary is gone") {
			t.Errorf("got %v", err)
		}
		if got := b.Status().LastExit; !strings.HasPrefix(got, "the binary is gone") {
			t.Errorf("got %q", got)
		}
	})
}

// replace replaces a file by rename.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestWaitEndsWithItsContextAndWithStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, works, func(o *Options) {
			o.Ready = func(context.Context, Endpoint) error { return errors.New("not yet") }
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		got := make(chan error)
		go func() {
			_, err := b.Wait(t.Context())
			got <- err
		}()
		synctest.Wait()
		_ = b.Stop(t.Context())
		if err := <-got; err == nil || !strings.Contains(err.Error(), "is stopped") {
			t.Errorf("got %v", err)
		}
	})
}

func TestReportedPortsComeFirstAndNeedNotBeRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tried []int
		b := newBubble(t, works, func(o *Options) {
			o.Ready = func(_ context.Context, e Endpoint) error {
				if tried = append(tried, e.HTTP); len(tried) < 4 || e.HTTP != 1 {
					return errors.New("connection refused")
				}
				return nil
			}
		})
		b.SetEndpoint(Endpoint{HTTP: 2, HTTPS: 3, CSRF: perigee.NewSecret("reported")})
		e, err := b.Wait(t.Context())
		if err != nil || e.HTTP != 1 || e.HTTPS != 0 || e.CSRF.Equal("reported") {
			t.Errorf("got %+v, %v after %v", e, err, tried)
		}
		b.SetEndpoint(Endpoint{HTTP: 1, HTTPS: 4})
		if e, _ = b.Wait(t.Context()); e.HTTP != 1 || e.HTTPS != 4 {
			t.Errorf("got %+v", e)
		}
	})
}

func TestChangedTellsOfEachState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, works, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []State
		go func() {
			for {
				changed := b.Changed()
				got = append(got, b.State())
				select {
				case <-changed:
				case <-ctx.Done():
					return
				}
			}
		}()
		synctest.Wait()
		b.die("exit status 1")
		time.Sleep(time.Second)
		_ = b.Stop(t.Context())
		synctest.Wait()
		got = slices.Compact(got)
		if len(got) < 3 || got[len(got)-1] != Stopped || !slices.Contains(got, Restarting) || !slices.Contains(got, Ready) {
			t.Errorf("got %v", got)
		}
	})
}

func TestIdleRestartLetsNoCallPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bubble
		passed := 0
		b = newBubble(t, works, func(o *Options) {
			o.Busy = func() bool {
				// A call that asks now must not get the process that is about to end.
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				if _, err := b.Wait(ctx); err == nil {
					passed++
				}
				return false
			}
		})
		synctest.Wait()
		b.RestartIdle("the account has changed")
		time.Sleep(time.Second)
		if passed != 0 || b.Status().Restarts != 1 {
			t.Errorf("%d calls passed, %+v", passed, b.Status())
		}
	})
}

func TestSmallMemoryLimitCausesOneRestartPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, works, func(o *Options) { o.Memory = 1000 })
		time.Sleep(10*time.Minute + time.Second)
		if status := b.Status(); status.Restarts < 9 || status.Restarts > 11 || status.State != Ready || status.Memory != 1001 ||
			!strings.HasPrefix(status.LastExit, "restarted: it used 1001 bytes of memory, more than the limit of 1000") {
			t.Errorf("got %+v", status)
		}
	})
}

func TestNoCallGetsAProcessThatIsBeingStopped(t *testing.T) {
	for _, stop := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var b *bubble
			asked := make(chan error, 1)
			b = newBubble(t, works, func(o *Options) {
				o.Exit = func(context.Context, Endpoint) error {
					ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
					defer cancel()
					_, err := b.Wait(ctx)
					asked <- err
					return nil
				}
			})
			synctest.Wait()
			if stop {
				_ = b.Stop(t.Context())
			} else {
				b.last.giveUp("it hangs")
			}
			if err := <-asked; err == nil {
				t.Error("a call got the endpoint")
			}
		})
	}
}

func TestDyingProcessIsNotCalledHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, works, nil)
		synctest.Wait()
		b.last.giveUp("it does not answer: connection refused")
		time.Sleep(100 * time.Millisecond)
		b.die("signal: killed")
		time.Sleep(time.Second)
		if got := b.Status().LastExit; !strings.HasPrefix(got, "signal: killed") {
			t.Errorf("got %q", got)
		}
	})
}

package trace_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"perigee"
	"perigee/internal/lib/redact"
	"perigee/internal/observe/trace"
	"perigee/internal/testing/perigeetest/await"
)

// busyRig returns a rig whose processor time is used up, or almost.
func busyRig(t *testing.T, left time.Duration, change func(*trace.Options)) *rig {
	t.Helper()
	r := newRig(t, func(o *trace.Options) {
		o.Share = 1e-9
		if change != nil {
			change(o)
		}
	})
	r.SetBudget(left)
	return r
}

// onlyFile checks that the directory of a call has one file.
func onlyFile(t *testing.T, tr *trace.Trace) {
	t.Helper()
	if files, err := os.ReadDir(tr.Dir); err != nil || len(files) != 1 || files[0].Name() != trace.PackedName {
		t.Errorf("files %v, %v", files, err)
	}
}

// Without processor time calls that succeed are counted and dropped, and calls that fail are
// written, however they fail. The log has all that were dropped.
func TestCallsThatFailAreTracedWhateverTheBudget(t *testing.T) {
	r := busyRig(t, trace.NothingLeft, nil)
	const good = 30
	for i := range good {
		id := fmt.Sprint("good", i)
		w := r.begin(t, id, nil)
		follow(w)
		end(w, id, nil)
	}
	for _, outcome := range []perigee.Outcome{perigee.OutcomeFailed, perigee.OutcomeCanceled, perigee.OutcomeCutOff} {
		w := r.begin(t, string(outcome), nil)
		follow(w)
		w.Ended(&perigee.Call{ID: string(outcome), Time: moment, Outcome: outcome, Class: perigee.ClassInvalid, Error: "refused", ClientStatus: 400})
		w.Done()
		got := r.read(t, string(outcome))
		onlyFile(t, got)
		if data := content(t, got, "error.json"); !strings.Contains(data, "refused") || got.Meta.Outcome != outcome || !got.Meta.Bodies {
			t.Errorf("%s: %s, %+v", outcome, data, got.Meta)
		}
		if data := content(t, got, "client_request.json"); data != `{"model":"gpt-4o"}` {
			t.Errorf("%s: %q", outcome, data)
		}
	}
	r.close(t)
	if r.Queued() != 0 || r.Skipped() != good {
		t.Errorf("%d bytes are held, %d calls skipped", r.Queued(), r.Skipped())
	}
	logged := 0
	for line := range strings.Lines(r.log.String()) {
		var n int
		if _, count, ok := strings.Cut(line, "calls="); ok {
			_, _ = fmt.Sscan(count, &n)
		}
		logged += n
	}
	if calls, _ := trace.Size(r.dir); calls != 3 || logged != good {
		t.Errorf("%d traces, %d calls in the log:\n%s", calls, logged, r.log)
	}
}

// A call that is written as one file has the same files as one with a directory of them.
func TestACallAsOneFileHasTheSameFiles(t *testing.T) {
	plain, busy := newRig(t, nil), busyRig(t, trace.LittleLeft, nil)
	var traces [2]*trace.Trace
	for i, r := range []*rig{plain, busy} {
		w := r.begin(t, "c1", nil)
		follow(w)
		w.Ended(&perigee.Call{ID: "c1", Time: moment, Outcome: perigee.OutcomeFailed, Error: "refused", Notes: []string{"dropped logprobs"}})
		w.Done()
		traces[i] = r.read(t, "c1")
	}
	onlyFile(t, traces[1])
	if want, got := traces[0].Files(), traces[1].Files(); len(want) != 10 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("files %q, want %q", got, want)
	}
	for _, name := range traces[0].Files() {
		if name == "meta.json" || name == "events.jsonl" {
			continue // they have times
		}
		if want, got := content(t, traces[0], name), content(t, traces[1], name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if m := traces[1].Meta; len(m.Tries) != 2 || m.Tries[1].Response != "upstream_response.2.sse" || m.ID != "c1" {
		t.Errorf("%+v", m)
	}
	if has := trace.Has(busy.dir, "c1"); !has["c1"] {
		t.Error("it cannot be sent again")
	}
	if _, err := traces[1].Read("missing"); err == nil {
		t.Error("a file is missing, and read")
	}
}

// Secrets are replaced in a call that is written as one file, also those that are spread over
// several events, and a request that is the client's own is there once.
func TestSecretsInOneFile(t *testing.T) {
	const key, token = "client-key-of-ada/1", "the-secret-key"
	r := busyRig(t, trace.LittleLeft, func(o *trace.Options) {
		o.Redactor = func() *redact.Redactor { return redact.New(perigee.NewSecret(key), perigee.NewSecret(token)) }
	})
	w := r.begin(t, "c1", &perigee.Origin{Method: "POST", Path: "/v1/" + key})
	body := []byte(`{"text":"` + strings.Repeat("x", 20_000) + `","key":"` + key + `"}`)
	free := 0
	buffer := perigee.NewBuffer(func() { free++ })
	w.(perigee.RequestTap).Request(perigee.TapClientRequest, buffer, body)
	w.(perigee.RequestTap).Request(perigee.TapProviderRequest, buffer, body)
	for _, text := range []string{"it is the-", "secret", "-key."} {
		chunk := fmt.Sprintf(`{"candidates":[{"content":{"parts":[{"text": %q}]}}]}`, text)
		w.Body(perigee.TapProviderAnswer, []byte("data: "+chunk+"\r\n\r\n"))
		w.Event(&perigee.Event{Kind: perigee.EventText, Text: text})
		w.Body(perigee.TapClientAnswer, []byte(fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", text)))
	}
	end(w, "c1", &perigee.Error{Class: perigee.ClassInvalid, Message: "refused " + token + " and " + key})
	got := r.read(t, "c1")
	onlyFile(t, got)
	for _, name := range got.Files() {
		data := content(t, got, name)
		if strings.Contains(data, key) || strings.Contains(data, "secret") || strings.Contains(data, "-key") || !strings.Contains(data, "[redacted]") {
			t.Errorf("%s: %.300s", name, data)
		}
	}
	if content(t, got, "client_request.json") != content(t, got, "upstream_request.json") || len(got.Files()) != 7 {
		t.Errorf("files %q", got.Files())
	}
	raw, err := os.ReadFile(filepath.Join(got.Dir, trace.PackedName))
	if err != nil || len(raw) > 25_000 || bytes.Contains(raw, []byte(key)) {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	r.close(t)
	if buffer.Release(); free != 1 || r.Queued() != 0 {
		t.Errorf("the request was released %d times, %d bytes are held", free, r.Queued())
	}
}

// A process that is killed while it writes one file leaves a part of it, and readers see a part while
// it is being written. Such a trace has no outcome.
func TestOneFileThatIsCutOff(t *testing.T) {
	r := busyRig(t, trace.LittleLeft, nil)
	w := r.begin(t, "c1", nil)
	follow(w)
	end(w, "c1", nil)
	got := r.read(t, "c1")
	files := len(got.Files())
	path := filepath.Join(got.Dir, trace.PackedName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := range whole {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		cut, err := trace.Open(r.dir, "c1")
		if err != nil || cut.Meta.ID != "c1" || size < len(whole)-1 && (len(cut.Files()) >= files || cut.Meta.Outcome != perigee.OutcomeOpen) {
			t.Fatalf("cut at %d of %d: %+v, %v", size, len(whole), cut, err)
		}
		for _, name := range cut.Files() {
			content(t, cut, name)
		}
	}
	// A damaged file may claim any size.
	sizes := regexp.MustCompile(`"(size|at)":\d+`)
	for _, claim := range []string{"9223372036854775807", "9223372036854775000", "-1", "1000000"} {
		head, rest, _ := bytes.Cut(whole, []byte("\n"))
		for _, member := range []string{"size", "at"} {
			damaged := sizes.ReplaceAllFunc(head, func(found []byte) []byte {
				if !bytes.HasPrefix(found, []byte(`"`+member)) {
					return found
				}
				return []byte(`"` + member + `":` + claim)
			})
			if bytes.Equal(damaged, head) {
				t.Fatalf("no %s in %s", member, head)
			}
			if err := os.WriteFile(path, slices.Concat(damaged, []byte("\n"), rest), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := trace.Open(r.dir, "c1"); err != nil || len(got.Files()) >= files {
				t.Errorf("%s %s: %v, %v", member, claim, got.Files(), err)
			}
		}
	}
	// A file of its own may be larger than memory.
	if err := os.WriteFile(filepath.Join(got.Dir, trace.MetaName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(got.Dir, trace.MetaName), 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := got.Read(trace.MetaName); err == nil || !strings.Contains(err.Error(), "more than perigee writes") {
		t.Errorf("a file of 1 TiB: %v", err)
	}
}

// Open calls are held while there is no processor time. If they hold too much memory, the oldest
// are written.
func TestHeldCallsAreWrittenBeforeMemoryIsUsedUp(t *testing.T) {
	var memory counted
	r := busyRig(t, trace.NothingLeft, func(o *trace.Options) {
		o.Queue, o.Memory = func() int64 { return 1 << 20 }, &memory
	})
	body := bytes.Repeat([]byte("x"), 60<<10)
	var open []perigee.Watcher
	for i := range 30 {
		w := r.begin(t, fmt.Sprint("c", i), nil)
		w.Body(perigee.TapClientRequest, body)
		open = append(open, w)
		await.Until(t, "the queue", func() bool { return r.Queued() <= 1<<19 })
	}
	if memory.Load() != r.Queued() || memory.Load() == 0 {
		t.Errorf("%d bytes are counted, %d are held", memory.Load(), r.Queued())
	}
	if has := trace.Has(r.dir, "c0", "c29"); !has["c0"] || has["c29"] {
		t.Errorf("%v", has)
	}
	for i, w := range open {
		end(w, fmt.Sprint("c", i), nil)
	}
	if got := r.read(t, "c0"); len(content(t, got, "client_request.json")) != len(body) || got.Meta.Outcome != perigee.OutcomeDone {
		t.Errorf("%+v", got.Meta)
	}
	r.close(t)
	if calls, _ := trace.Size(r.dir); memory.Load() != 0 || calls+r.Skipped() != 30 || r.Skipped() == 0 {
		t.Errorf("%d bytes are held, %d calls written, %d skipped", memory.Load(), calls, r.Skipped())
	}
}

// Of large calls that have succeeded, one waits to be written, and gives way to a large body that
// arrives. Those that fail are all written.
func TestOneLargeCallWaits(t *testing.T) {
	var writing sync.Mutex
	writing.Lock()
	r := newRig(t, func(o *trace.Options) {
		o.Share = 0.9
		o.Redactor = func() *redact.Redactor {
			writing.Lock()
			defer writing.Unlock()
			return nil
		}
	})
	r.Unlimit()
	body := bytes.Repeat([]byte("x"), 5<<20)
	call := func(id string, failure *perigee.Error) {
		w := r.begin(t, id, nil)
		w.Body(perigee.TapClientRequest, body)
		end(w, id, failure)
	}
	call("given", nil)
	r.GiveWay()
	call("first", &perigee.Error{Class: perigee.ClassInvalid, Message: "refused"})
	call("second", nil)
	call("third", nil)
	call("fourth", &perigee.Error{Class: perigee.ClassInvalid, Message: "refused"})
	writing.Unlock()
	r.close(t)
	has := trace.Has(r.dir, "given", "first", "second", "third", "fourth")
	if has["given"] || !has["first"] || !has["second"] || has["third"] || !has["fourth"] || r.Skipped() != 2 || r.Queued() != 0 {
		t.Errorf("%v, %d calls skipped, %d bytes are held", has, r.Skipped(), r.Queued())
	}
}

// counted is a lease that counts.
type counted struct{ atomic.Int64 }

func (c *counted) Grow(bytes int64) error { c.Add(bytes); return nil }
func (c *counted) Shrink(bytes int64)     { c.Add(-bytes) }

// A body that breaks off in the middle of a secret does not show its beginning: a request that is too
// large for its file, and an answer whose connection is lost.
func TestBodiesThatBreakOffInASecret(t *testing.T) {
	const secret = "SECRETKEY-abcdefghijklmnop"
	for form, left := range map[string]time.Duration{"one file": trace.LittleLeft, "a directory": time.Hour} {
		t.Run(form, func(t *testing.T) {
			r := busyRig(t, left, func(o *trace.Options) {
				o.Keep = 256 << 10
				o.Redactor = func() *redact.Redactor { return redact.New(perigee.NewSecret(secret)) }
			})
			large := r.begin(t, "large", nil)
			large.Body(perigee.TapClientRequest, []byte(strings.Repeat("x", 64<<10-len(secret)+1)+secret+"yyy"))
			large.Ended(&perigee.Call{ID: "large", Time: moment, Outcome: perigee.OutcomeFailed})
			large.Done()
			lost := r.begin(t, "lost", nil)
			lost.Body(perigee.TapProviderRequest, []byte("{}"))
			lost.Body(perigee.TapProviderAnswer, []byte("data: {}\n\n"))
			lost.Body(perigee.TapProviderAnswer, []byte(`data: {"text":"`+secret[:len(secret)-1]))
			lost.Ended(&perigee.Call{ID: "lost", Time: moment, Outcome: perigee.OutcomeCutOff})
			lost.Done()
			r.close(t)
			for id, name := range map[string]string{"large": trace.ClientRequestName, "lost": trace.UpstreamResponse(1, true)} {
				tr, err := trace.Open(r.dir, id)
				if err != nil {
					t.Fatal(err)
				}
				data, err := tr.Read(name)
				if err != nil || strings.Contains(string(data), secret[:4]) || !strings.HasSuffix(string(data), redact.Mark) {
					t.Errorf("%s of %s ends with %q, %v", name, id, data[max(0, len(data)-60):], err)
				}
			}
		})
	}
}

package trace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"perigee"
	"perigee/internal/observe/trace"
	"perigee/internal/testing/perigeetest/await"
)

// keep counts the blocks of files and directories: small files take more than their bytes.
func TestKeepCountsBlocks(t *testing.T) {
	const keep = 400 << 10
	r := newRig(t, func(o *trace.Options) { o.Keep = keep })
	for i := range 40 {
		id := fmt.Sprintf("c%02d", i)
		w := r.begin(t, id, nil)
		follow(w)
		end(w, id, nil)
	}
	await.Until(t, "the limit", func() bool { _, size := trace.Size(r.dir); return size <= keep && len(trace.Has(r.dir, "c39")) == 1 })
	r.close(t)
	calls, size := trace.Size(r.dir)
	// Eight files of a block each, and the directory, which has no blocks in some file systems.
	if size > keep || calls > keep/(8*4<<10) || calls < 5 || size < calls*8*4<<10 {
		t.Errorf("%d calls of %d bytes are kept", calls, size)
	}
}

// The number of calls is bounded, whatever their size.
func TestTheNumberOfCallsIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "traces")
	const most = 20
	for i := range most + 5 {
		path := filepath.Join(dir, "2026-11-14", fmt.Sprintf("%02d%02d%02d.000-old%d", i/3600, i/60%60, i%60, i))
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "meta.json"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, func(o *trace.Options) { o.Dir, o.MaxCalls = dir, most })
	await.Until(t, "the oldest calls to be removed", func() bool { calls, _ := trace.Size(dir); return calls == most })
	if _, err := r.Open("old4"); err == nil || perigee.AsError(err).Class != perigee.ClassNotFound {
		t.Errorf("%v", err)
	}
	if got, err := r.Open("old5"); err != nil || got.Meta.ID != "old5" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A limit that is raised while traces are removed counts at once.
func TestKeepIsRaisedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "traces")
	for i := range 20 {
		plant(t, dir, "2026-11-14", fmt.Sprintf("1420%02d.000-old%d", i, i), map[string]string{"meta.json": "{}"})
	}
	trace.Trim(dir, func() int64 {
		if calls, _ := trace.Size(dir); calls > 15 {
			return 0
		}
		return 100 << 20
	})
	if calls, _ := trace.Size(dir); calls != 15 {
		t.Errorf("%d traces are left", calls)
	}
}

// An empty directory, which a killed process leaves, is no trace.
func TestAnEmptyDirectoryIsNoTrace(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, "2026-11-15", "142004.088-c1", nil)
	if _, err := trace.Open(dir, "c1"); err == nil || perigee.AsError(err).Class != perigee.ClassNotFound {
		t.Errorf("%v", err)
	}
}

// A listing of a running daemon finds the calls of this Store and of earlier ones, in both forms.
func TestAStoreKnowsItsCalls(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "traces")
	plant(t, dir, "2026-11-15", "142004.088-c1", map[string]string{"client_request.json": "{}"})
	r := busyRig(t, trace.LittleLeft, func(o *trace.Options) { o.Dir = dir })
	w := r.begin(t, "c2", nil)
	follow(w)
	end(w, "c2", nil)
	r.read(t, "c2")
	calls, err := trace.Reader{CallReader: twoCalls{}, Store: r.Store}.Calls(t.Context(), perigee.CallQuery{})
	if err != nil || len(calls) != 2 || !calls[0].Bodies || !calls[1].Bodies {
		t.Errorf("%+v, %v", calls, err)
	}
	if got, err := r.Open("c2"); err != nil || len(got.Files()) != 8 {
		t.Errorf("%+v, %v", got, err)
	}
}

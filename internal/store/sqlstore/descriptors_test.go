//go:build unix

package sqlstore

import (
	"sync"
	"syscall"
	"testing"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

// TestReadersNeedNoDescriptor: with no file descriptor left, a store that is warm reads with all
// its connections.
func TestReadersNeedNoDescriptor(t *testing.T) {
	s := openWith(t, freshSQLite(t))
	if err := s.SaveCalls(t.Context(), []perigee.Call{fullCall("c1")}); err != nil {
		t.Fatal(err)
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	none := before
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}()
	var all sync.WaitGroup
	for range 4 * s.db.Read.Stats().MaxOpenConnections {
		all.Go(func() {
			if rows, err := s.Usage(t.Context(), perigee.UsageQuery{By: perigee.ByModel}); err != nil || len(rows) != 1 {
				t.Errorf("got %v, %v", rows, err)
			}
			if calls, err := s.Calls(t.Context(), perigee.CallQuery{}); err != nil || len(calls) != 1 {
				t.Errorf("got %d calls, %v", len(calls), err)
			}
		})
	}
	await.Return(t, all.Wait, "the reads")
}

//go:build unix

package main

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"perigee/internal/testing/perigeetest/await"
)

// Opening a pipe waits for a writer. The wait ends with the context.
func TestIndexFromPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "index.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan error, 1)
	go func() {
		_, err := readIndex(ctx, pipe)
		done <- err
	}()
	if err := await.Receive(t, done, "the end of the wait"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

package supervisor

import (
	"bytes"
	"sync"
)

// A logBuffer keeps log lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A boolean may be used concurrently.
type boolean struct {
	mu    sync.Mutex
	value bool
}

func newFlag(value bool) *boolean { return &boolean{value: value} }

func (b *boolean) get() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.value
}

func (b *boolean) set(value bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.value = value
}

package trace

import (
	"bytes"
	"strings"
	"sync"

	"perigee/internal/lib/redact"
)

// A file is one that a call writes. It is guarded by watcher.mu, except for the fields of the
// writing goroutine.
type file struct {
	name      string
	exchange  int      // for an answer of a provider, which gets its name with its first bytes
	chunks    [][]byte // the pending bytes, in buffers of the pools
	size      int64    // bytes that were added
	truncated string   // why no more bytes are added; empty if bytes can be added
	complete  bool     // no more will be added

	// Of the writing goroutine.
	redacted redact.Stream
	created  bool
	written  int64
	closed   bool // all of it is written
}

// Chunks are buffers that bodies wait in. Most pieces of streams are small.
const (
	smallChunk = 4 << 10
	largeChunk = 64 << 10
)

var (
	smallChunks = sync.Pool{New: func() any { return new([smallChunk]byte) }}
	largeChunks = sync.Pool{New: func() any { return new([largeChunk]byte) }}
)

// add copies bytes.
func (f *file) add(data []byte) {
	f.size += int64(len(data))
	for len(data) > 0 {
		last := len(f.chunks) - 1
		if last < 0 || len(f.chunks[last]) == cap(f.chunks[last]) {
			if last < 0 && len(data) <= smallChunk {
				f.chunks = append(f.chunks, smallChunks.Get().(*[smallChunk]byte)[:0])
			} else {
				f.chunks = append(f.chunks, largeChunks.Get().(*[largeChunk]byte)[:0])
			}
			last++
		}
		chunk := f.chunks[last]
		n := min(len(data), cap(chunk)-len(chunk))
		f.chunks[last] = append(chunk, data[:n]...)
		data = data[n:]
	}
}

// free returns a chunk to its pool.
func free(chunk []byte) {
	switch chunk = chunk[:cap(chunk)]; len(chunk) {
	case smallChunk:
		smallChunks.Put((*[smallChunk]byte)(chunk))
	case largeChunk:
		largeChunks.Put((*[largeChunk]byte)(chunk))
	}
}

// isStream reports whether an answer is a stream of events, by its first bytes.
func isStream(chunk []byte) bool {
	chunk = bytes.TrimLeft(chunk, "\ufeff \r\n")
	text := string(chunk[:min(len(chunk), 8)])
	for _, field := range []string{"data:", "event:", "id:", "retry:", ":"} {
		if text != "" && (strings.HasPrefix(text, field) || strings.HasPrefix(field, text)) {
			return true
		}
	}
	return false
}

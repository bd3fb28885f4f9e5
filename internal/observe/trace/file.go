package trace

import (
	"bytes"
	"strings"
	"sync"

	"perigee"
	"perigee/internal/lib/redact"
)

// A file is one that a call writes. It is guarded by watcher.mu, except for the fields of the
// writing goroutine.
type file struct {
	name      string
	exchange  int // for an answer of a provider, which gets its name with its first bytes
	pending   pending
	size      int64  // bytes that were added
	truncated string // why no more bytes are added; empty if bytes can be added
	complete  bool   // no more will be added

	// Of the writing goroutine.
	redacted redact.Stream
	created  bool
	written  int64
	closed   bool // all of it is written
}

// pending are bytes that wait to be written: copies in buffers of the pools, or a request that is
// retained.
type pending struct {
	chunks [][]byte
	buffer *perigee.Buffer // of a retained request; nil for copies
	weight int64           // bytes of memory
}

// Chunks are the buffers of copies. Most pieces of streams are small: a file gets one chunk of each
// size, and then further ones of the largest size.
var chunkSizes = [...]int{512, 2 << 10, 8 << 10, 64 << 10}

var chunkPools [len(chunkSizes)]sync.Pool

// newChunk returns an empty chunk of a size.
func newChunk(class int) []byte {
	if c, ok := chunkPools[class].Get().(*[]byte); ok {
		return *c
	}
	return make([]byte, 0, chunkSizes[class])
}

// grow returns the size of the chunk that data of so many bytes needs; 0 if there is space.
func (p *pending) grow(n int) (class int, needed bool) {
	last := len(p.chunks) - 1
	if last >= 0 && len(p.chunks[last]) < cap(p.chunks[last]) {
		return 0, false
	}
	class = min(last+1, len(chunkSizes)-1)
	for class < len(chunkSizes)-1 && chunkSizes[class] < n {
		class++
	}
	return class, true
}

// free releases the memory.
func (p *pending) free() {
	if p.buffer != nil {
		p.buffer.Release()
	} else {
		for _, c := range p.chunks {
			for class, size := range chunkSizes {
				if cap(c) == size {
					c = c[:0]
					chunkPools[class].Put(&c)
				}
			}
		}
	}
	*p = pending{}
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

package standin

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// faults decides which of the faults in the settings occur.
type faults struct {
	mu     sync.Mutex
	values map[string]string
	dir    string // of counts that survive restarts
}

// has reports whether a fault without a count is set, and returns its value.
func (f *faults) has(name string) (value string, ok bool) {
	value, ok = f.values[name]
	return value, ok
}

// duration returns the value of a fault, or 0.
func (f *faults) duration(name string) time.Duration {
	d, _ := time.ParseDuration(f.values[name])
	return d
}

// size returns the value of a fault, or 0.
func (f *faults) size(name string) int {
	n, _ := strconv.Atoi(f.values[name])
	return n
}

// due reports whether a fault with a count occurs now, and counts it.
func (f *faults) due(name string) bool {
	value, ok := f.values[name]
	if !ok || value == "" {
		return ok
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	most, _ := strconv.Atoi(value)
	path := filepath.Join(f.dir, name)
	text, _ := os.ReadFile(path) // missing: none so far
	count, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if count >= most {
		return false
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return true
	}
	_ = os.WriteFile(path, []byte(strconv.Itoa(count+1)), 0o600) // a fault that cannot be counted occurs again
	return true
}

// segfault is the message of the Go runtime for a nil pointer dereference.
const segfault = `panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x7e5a20]

goroutine 1 [running]:
google3/third_party/jetski/language_server.run(0xc0001a4000)
	third_party/jetski/language_server/main.go:211 +0x1c4
main.main()
	third_party/jetski/language_server/main.go:88 +0x2f
`

// crash ends the process as a Go panic does.
func (p *process) crash(why string) {
	p.log.error("crashing: %s", why)
	p.log.raw(segfault)
	p.exit(2)
}

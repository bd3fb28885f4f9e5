package daemon

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"perigee/internal/config"
	"perigee/internal/membudget"
)

// memorySize is limits.memory in bytes.
func memorySize(cfg *config.Config) int64 {
	if cfg.Limits.Memory > 0 {
		return int64(cfg.Limits.Memory)
	}
	return membudget.Auto()
}

// limitRuntime makes limits.memory the soft limit of the runtime, which collects garbage the more often the nearer it comes. An eighth
// is left for what the runtime does not count: the program itself, and the memory of SQLite. GOMEMLIMIT in the environment counts
// instead if it is set.
func limitRuntime(size int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(size / 8 * 7)
	}
}

// A collector says when garbage is collected. Small calls leave little of it, and waiting until five times of what is in use
// have gathered costs a few megabytes and saves a tenth of all the work. While large bodies or answers are in memory that would be
// hundreds of megabytes, and waiting for twice as much is the rule, as in any Go program.
type collector struct {
	setPercent func(percent int)
	spare      func() int64 // bytes of the heap's memory that the last collection has not found in use
	collect    func()       // collects garbage and returns memory to the system

	mu      sync.Mutex
	held    int64 // bytes that calls have reserved of the memory budget, for bodies and answers
	patient bool
}

const (
	patience   = 400 // percent of what is in use
	impatience = 100
	manyBytes  = 32 << 20 // from here on there is no patience (8 MiB of bodies, which count four times),
	fewBytes   = 8 << 20  // and below it there is again
)

// newCollector leaves everything as it is when the user has set GOGC.
func newCollector() *collector {
	c := &collector{setPercent: func(percent int) { debug.SetGCPercent(percent) }, spare: spareMemory, collect: collect, patient: true}
	if os.Getenv("GOGC") != "" {
		c.setPercent = func(int) {}
	}
	c.setPercent(patience)
	return c
}

// hold is told how many bytes calls have reserved; with a minus, released.
func (c *collector) hold(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held += bytes
	switch {
	case c.patient && c.held > manyBytes:
		c.patient = false
		c.setPercent(impatience)
	case !c.patient && c.held < fewBytes:
		c.patient = true
		c.setPercent(patience)
	}
}

// giveBack returns to the system what only calls needed: it may have better use for it until the next one. What pools keep
// survives one collection, not two. While calls are open it does so only from manySpare on: their requests are garbage that no
// collection would find before minutes have passed, but the next request of a single agent should not wait for its memory.
func (c *collector) giveBack(open int) {
	if open == 0 || c.spare() >= manySpare {
		c.collect()
	}
}

func collect() {
	runtime.GC()
	debug.FreeOSMemory()
}

const manySpare = 64 << 20

func spareMemory() int64 {
	list := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(list)
	value := func(i int) int64 { return int64(list[i].Value.Uint64()) }
	return value(0) + value(1) + value(2) - value(3)
}

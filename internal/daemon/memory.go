package daemon

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// A collector says when garbage is collected. Small calls leave little of it, and waiting until five times of what is in use
// have gathered costs a few megabytes and saves a tenth of all the work. While large bodies are in the house that would be
// hundreds of megabytes, and waiting for twice as much is the rule, as in any Go program.
type collector struct {
	setPercent func(percent int)
	spare      func() int64 // bytes of the heap's memory that the last collection has not found in use
	collect    func()       // collects garbage and returns memory to the system

	mu      sync.Mutex
	bodies  int64 // bytes of the requests that are being answered
	patient bool
}

const (
	patience   = 400 // percent of what is in use
	impatience = 100
	manyBytes  = 8 << 20 // from here on there is no patience,
	fewBytes   = 2 << 20 // and below it there is again
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

// hold is told how many bytes of requests have come into the house; fewer than none have left it.
func (c *collector) hold(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies += bytes
	switch {
	case c.patient && c.bodies > manyBytes:
		c.patient = false
		c.setPercent(impatience)
	case !c.patient && c.bodies < fewBytes:
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

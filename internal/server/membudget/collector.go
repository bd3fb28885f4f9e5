package membudget

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// LimitRuntime sets the soft memory limit of the Go runtime to 7/8 of limits.memory. The rest is
// for memory that the runtime does not count: the program itself and SQLite. A GOMEMLIMIT in the
// environment takes precedence.
func LimitRuntime(size int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(size / 8 * 7)
	}
}

// A Collector sets GOGC by the bytes that calls have reserved: 400 up to 32 MiB, 100 up to 128 MiB,
// and 50 above. Calls reserve four times their bodies, so the steps are at 8 MiB and 32 MiB of
// bodies. With small calls, 400 costs about 12 MB and saves a tenth of the CPU; with large ones it
// would cost hundreds of megabytes. When no call begins for a while, GiveBack returns memory to the
// system. A GOGC in the environment is left alone.
type Collector struct {
	setPercent func(percent int)
	spare      func() int64 // bytes of the heap that the last collection has not found in use
	collect    func()       // runs garbage collections and returns memory to the system
	release    func()       // returns the program's own pages

	mu       sync.Mutex
	reserved int64 // bytes that calls have reserved
	level    int   // of gcLevels
}

// gcLevels are the values of GOGC while calls have reserved more than held bytes. A level ends when
// they have reserved less than a quarter of that, so that calls of about this size do not change it
// each time.
var gcLevels = []struct {
	held    int64
	percent int
}{{0, 400}, {32 << 20, 100}, {128 << 20, 50}}

// NewCollector sets GOGC to 400, unless the environment has set it.
func NewCollector() *Collector {
	c := &Collector{setPercent: func(percent int) { debug.SetGCPercent(percent) }, spare: spareMemory, collect: collectTwice, release: releaseProgram}
	if os.Getenv("GOGC") != "" {
		c.setPercent = func(int) {}
	}
	c.setPercent(gcLevels[0].percent)
	return c
}

// Hold counts bytes that calls have reserved. A negative number is released.
func (c *Collector) Hold(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved += bytes
	level := c.level
	for level+1 < len(gcLevels) && c.reserved > gcLevels[level+1].held {
		level++
	}
	for level > 0 && c.reserved < gcLevels[level].held/4 {
		level--
	}
	if level != c.level {
		c.level = level
		c.setPercent(gcLevels[level].percent)
	}
}

// GiveBack collects garbage and returns memory to the system, if no call is open or at least 64 MiB
// of the heap are not in use. Requests of calls with long answers would otherwise stay in memory
// for minutes; smaller amounts are kept for the next request of an agent. If no call is open, the
// pages of the program are returned as well.
func (c *Collector) GiveBack(open int) {
	if open == 0 || c.spare() >= manySpare {
		c.collect()
	}
	if open == 0 {
		c.release()
	}
}

const manySpare = 64 << 20

// collectTwice runs two collections, because objects in a sync.Pool survive one.
func collectTwice() {
	runtime.GC()
	debug.FreeOSMemory()
}

func spareMemory() int64 {
	list := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(list)
	value := func(i int) int64 { return int64(list[i].Value.Uint64()) }
	return value(0) + value(1) + value(2) - value(3)
}

package supervisor

import (
	"context"
	"fmt"
	"os"
	"time"

	"perigee/internal/langserver/probe"
)

const (
	inspectEvery     = 5 * time.Second
	heartbeatTimeout = 5 * time.Second
	maxMissed        = 3           // heartbeats in a row that may fail
	maxMissedBusy    = 15          // the same while calls are running, a minute more: a busy process may be slow, and its calls would fail
	memoryRestEvery  = time.Minute // at most one restart for memory in this time
)

// inspect watches a process that is ready: heartbeats, memory, and whether the file of the binary
// is still the same.
func (s *Supervisor) inspect(ctx context.Context, c *child) {
	ticker := time.NewTicker(inspectEvery)
	defer ticker.Stop()
	missed, binary := 0, s.file
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.calls:
			s.checkMemory(c)
		case <-ticker.C:
			hangs := false
			if missed, hangs = s.heartbeat(ctx, c, missed); hangs {
				return
			}
			s.checkMemory(c)
			binary = s.checkBinary(binary)
		}
		s.wakeUp()
	}
}

// heartbeat sends a heartbeat and returns the number of consecutive failures, and whether the
// process was given up.
func (s *Supervisor) heartbeat(ctx context.Context, c *child, missed int) (now int, hangs bool) {
	if s.o.Heartbeat == nil {
		return 0, false
	}
	s.mu.Lock()
	e := s.ports
	s.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	err := s.o.Heartbeat(limited, e)
	if err == nil || ctx.Err() != nil {
		return 0, false
	}
	missed++
	reason := s.redacted(err.Error())
	s.log.Warn("language server missed a heartbeat", "pid", c.pid, "missed", missed, "error", reason)
	if missed < maxMissed || missed < maxMissedBusy && s.o.Busy() {
		return missed, false
	}
	c.giveUp(fmt.Sprintf("it hangs: %d heartbeats in a row failed: %s", missed, reason))
	return missed, true
}

// checkMemory requests a restart if the group exceeds its limit. A limit below the normal size of
// the process causes one restart per minute at most.
func (s *Supervisor) checkMemory(c *child) {
	if s.o.Memory <= 0 {
		return
	}
	used := s.measure(c.pid)
	if used <= s.o.Memory || s.o.Now().Sub(s.lastMemory) < memoryRestEvery {
		return
	}
	s.lastMemory = s.o.Now()
	s.log.Warn("language server uses too much memory", "pid", c.pid, "memory", used, "limit", s.o.Memory)
	s.RestartIdle(fmt.Sprintf("it used %d bytes of memory, more than the limit of %d", used, s.o.Memory))
}

// checkBinary requests a restart if the file has other content than the one that was started. It
// returns the file's current info. A file that has changed since the last check may still be
// written and is checked again.
func (s *Supervisor) checkBinary(seen os.FileInfo) os.FileInfo {
	info, err := os.Stat(s.o.Command[0])
	if err != nil || sameFile(info, s.file) || !sameFile(info, seen) {
		return info
	}
	sum, err := probe.Hash(s.o.Command[0])
	if err != nil {
		return info
	}
	s.mu.Lock()
	known := s.probe.SHA256
	s.mu.Unlock()
	if sum == known {
		s.file = info
		return info
	}
	s.RestartIdle("the binary has changed on disk")
	return info
}

// sameFile reports whether a file was neither replaced nor written.
func sameFile(a, b os.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

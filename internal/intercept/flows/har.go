package flows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	harInterval = 5 * time.Second // between two versions of the file, if there are new entries
	harQueue    = 4096            // flows that wait to be written
)

// A HAR writes flows to an HTTP archive (HAR 1.2). The file is complete and valid at any time:
// each version is written under another name, with mode 0600, and renamed. Until then entries are
// kept in a file without a name, not in memory.
type HAR struct {
	path    string
	version string
	logger  *slog.Logger

	memory memory // of bodies that are not written yet
	queue  chan *exchange
	ended  chan struct{} // by the goroutine that writes
	every  time.Duration

	mu     sync.RWMutex // held while an exchange is added, so that none is added to a closed queue
	closed bool

	// Used by the goroutine that writes.
	entries *os.File // JSON of the entries, with commas between them
	size    int64
	changed bool  // since the last version
	failed  error // of the last attempt to write
	buffer  bytes.Buffer
}

// HAROptions configure a HAR.
type HAROptions struct {
	Path    string
	Version string // version of perigee, for the creator
	Logger  *slog.Logger
}

// NewHAR writes an archive without entries. It replaces an existing file. The caller must close
// the HAR.
func NewHAR(o HAROptions) (*HAR, error) { return newHAR(o, harInterval) }

func newHAR(o HAROptions, every time.Duration) (*HAR, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", o.Path)
	}
	h := &HAR{path: path, version: o.Version, logger: o.Logger, queue: make(chan *exchange, harQueue), ended: make(chan struct{}), every: every}
	if h.entries, err = h.temporary(); err != nil {
		return nil, err
	}
	// On most systems the file is deleted when the process ends in any way. If an open file cannot
	// be removed, Close does it.
	_ = os.Remove(h.entries.Name())
	if err := h.publish(false); err != nil {
		return nil, errors.Join(err, h.discard())
	}
	go h.run()
	return h, nil
}

func (h *HAR) temporary() (*os.File, error) {
	return os.CreateTemp(filepath.Dir(h.path), "."+filepath.Base(h.path)+".*.tmp") // 0600
}

func (h *HAR) discard() error {
	err := h.entries.Close()
	_ = os.Remove(h.entries.Name())
	return err
}

// add queues a flow. It blocks only if thousands of flows are not written yet.
func (h *HAR) add(x *exchange) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.closed {
		return
	}
	h.queue <- x
}

// Close writes the remaining flows and returns the error of the last version, if that could not be
// written.
func (h *HAR) Close() error {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.queue)
	}
	h.mu.Unlock()
	<-h.ended
	return h.failed
}

func (h *HAR) run() {
	defer close(h.ended)
	tick := time.NewTicker(h.every)
	defer tick.Stop()
	for {
		select {
		case x, ok := <-h.queue:
			if !ok {
				h.failed = errors.Join(h.publish(true), h.discard())
				return
			}
			h.write(x)
		case <-tick.C:
			if !h.changed {
				continue
			}
			err := h.publish(false)
			if err != nil && h.failed == nil {
				h.logger.Warn("the HAR file cannot be written; flows pass on, and writing is tried again", "file", h.path, "error", err)
			}
			h.failed = err
		}
	}
}

// write appends an entry. An entry that cannot be written is left out, so that the file stays
// valid.
func (h *HAR) write(x *exchange) {
	defer x.release()
	h.buffer.Reset()
	if h.size > 0 {
		h.buffer.WriteString(",\n")
	}
	out := json.NewEncoder(&h.buffer)
	out.SetEscapeHTML(false)
	if err := out.Encode(x.entry()); err != nil {
		h.logger.Warn("a flow is not in the HAR file", "url", x.flow.URL, "error", err)
		return
	}
	text := bytes.TrimRight(h.buffer.Bytes(), "\n")
	if _, err := h.entries.WriteAt(text, h.size); err != nil {
		h.logger.Warn("a flow is not in the HAR file", "url", x.flow.URL, "error", err)
		return
	}
	h.size += int64(len(text))
	h.changed = true
	if h.buffer.Cap() > 4*maxBody {
		h.buffer = bytes.Buffer{}
	}
}

// publish writes a version of the file. If last is set, the version is on disk when publish
// returns.
func (h *HAR) publish(last bool) (err error) {
	f, err := h.temporary()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	creator, err := json.Marshal(harCreator{"perigee", h.version})
	if err == nil {
		_, err = fmt.Fprintf(f, "{\"log\":{\"version\":\"1.2\",\"creator\":%s,\"entries\":[\n", creator)
	}
	if err == nil {
		_, err = h.entries.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = io.CopyN(f, h.entries, h.size)
	}
	if err == nil {
		_, err = io.WriteString(f, "\n]}}\n")
	}
	if err == nil && last {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), h.path); err == nil {
		h.changed = false
	}
	return err
}

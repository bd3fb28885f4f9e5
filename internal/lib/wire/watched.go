package wire

import (
	"io"
	"time"
)

// Watched returns a reader of an answer that is passed on unread. The provider may be quiet for
// idle; the time between reads does not count.
func Watched(r io.Reader, w *Watchdog, idle time.Duration) io.Reader {
	return &watchedReader{r, w, idle}
}

type watchedReader struct {
	reader   io.Reader
	watchdog *Watchdog
	idle     time.Duration
}

func (r *watchedReader) Read(p []byte) (int, error) {
	r.watchdog.Reset(r.idle, ErrIdle)
	r.watchdog.Busy(false)
	defer r.watchdog.Busy(true)
	return r.reader.Read(p)
}

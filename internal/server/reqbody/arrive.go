package reqbody

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"perigee"
)

// Decompress returns a reader of the decoded content. The size limit then applies twice: to the
// encoded and to the decoded bytes.
func Decompress(src io.Reader, encoding string) (io.Reader, error) {
	switch encoding = strings.ToLower(encoding); encoding {
	case "", "identity":
		return src, nil
	case "gzip":
		z, err := gzip.NewReader(src)
		if errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, perigee.Errorf(perigee.ClassInvalid, "the body is not gzip, although it says so")
		}
		return z, err
	}
	e := perigee.Errorf(perigee.ClassInvalid, "the content encoding %q is not known here", perigee.Clip(encoding, 100)).
		WithHint("send the body uncompressed, or with gzip")
	e.Status = http.StatusUnsupportedMediaType
	return nil, e
}

// Explain returns the error for a body that could not be read. setting is the name of the setting
// that limit comes from.
func Explain(ctx context.Context, err error, limit int64, setting string) error {
	if e, ok := errors.AsType[*perigee.Error](err); ok {
		return e
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok || errors.Is(err, ErrTooLarge) {
		return TooLarge(limit, setting)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e := perigee.Errorf(perigee.ClassInvalid, "the body did not arrive in time").
			WithHint("send it faster than %d KiB a second, and what is beyond 1 MiB faster than %d KiB a second", MinRate>>10,
				LargeRate>>10)
		e.Status = http.StatusRequestTimeout
		return e
	}
	// A client that has only stopped writing still reads, and cannot be distinguished from one that
	// is gone.
	if ctx.Err() != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return ctx.Err()
	}
	return perigee.Errorf(perigee.ClassInvalid, "the body broke off: %v", err).WithHint("send all of it")
}

// lingerTime is how long the rest of a body is read after an answer to its beginning.
const lingerTime = 5 * time.Second

var lingerBuffers = sync.Pool{New: func() any { return new(make([]byte, 4<<10)) }}

// Linger reads and discards the rest of a body that was refused while it was being sent. The system
// resets a connection that is closed with unread bytes, and a client that is still writing then
// sees a broken pipe in place of the answer. An HTTP/2 stream is reset as soon as the handler
// returns, and curl 7.88 for one drops an answer that it has not read by then.
func Linger(w http.ResponseWriter, body io.Reader) {
	control := http.NewResponseController(w)
	if control.Flush() != nil || control.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	buf := lingerBuffers.Get().(*[]byte)
	defer lingerBuffers.Put(buf)
	for {
		if _, err := body.Read(*buf); err != nil {
			return
		}
	}
}

// Uploads counts the memory reserved for large bodies that have not arrived yet, by the key or the
// address that they come from. One source may use a bounded part of the budget. A client that
// announces bodies and sends them slowly can thus not keep other clients from sending theirs; Time
// bounds how long it can try. The zero value is ready to use.
type Uploads struct {
	mu sync.Mutex
	by map[string]int64
}

// Add adds delta to held, the bytes reserved for a body, and reports whether the sum for all bodies
// of the source is allowed. The first body of a source is always allowed: the budget decides.
func (u *Uploads) Add(source string, held *int64, delta, most int64) bool {
	if delta == 0 {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	sum := u.by[source] + delta
	if delta > 0 && sum-delta > *held && sum > most {
		return false
	}
	*held += delta
	if u.by == nil {
		u.by = map[string]int64{}
	}
	if u.by[source] = sum; sum <= 0 {
		delete(u.by, source)
	}
	return true
}

package sse

import "io"

// fill reads once from the source, after making room.
func (r *Reader) fill() {
	if r.dataEnd-r.dataStart > MaxLine || r.Raw && r.pos-r.rawStart > MaxLine {
		r.err = ErrTooLong
		return
	}
	if r.err = r.makeRoom(); r.err != nil {
		return
	}
	// A reader may return nothing without an error, but not forever.
	for range 100 {
		n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		r.err = err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// makeRoom moves the bytes that are still needed to the front of the buffer when the buffer is
// nearly full, or when nothing is needed. It takes another buffer if this one would stay more than
// half full, or is larger than an idle stream may keep. So the cost of moving is in proportion to
// the bytes read.
func (r *Reader) makeRoom() error {
	from, data := r.dataStart, r.buf[r.dataStart:r.dataEnd]
	if r.Raw {
		from, data = r.rawStart, r.buf[r.rawStart:r.pos]
	}
	rest := r.buf[r.pos:]
	need := len(data) + len(rest)
	size := cap(r.buf)
	switch {
	case size == 0:
		size = firstBuffer
	case size > idleBuffer && need <= idleBuffer/2:
		size = idleBuffer
	case size < busyBuffer && len(r.buf) == size:
		size = busyBuffer
	case size-len(r.buf) >= size/4 && need > 0:
		return nil
	case need > size/2:
		size *= 2
	}
	to := r.buf[:cap(r.buf)]
	if size != cap(r.buf) {
		if err := r.reserve(size); err != nil {
			return err
		}
		to = make([]byte, size)
	}
	copy(to, data)
	copy(to[len(data):], rest)
	r.buf = to[:need]
	r.lf.shift(r.pos, len(data))
	r.cr.shift(r.pos, len(data))
	r.dataStart, r.dataEnd, r.rawStart, r.pos = r.dataStart-from, r.dataEnd-from, 0, len(data)
	return nil
}

// reserve reserves memory for the difference to the previous buffer, as far as it exceeds the size
// that an idle stream may keep.
func (r *Reader) reserve(size int) error {
	if r.Reserve == nil {
		return nil
	}
	if more := max(size, idleBuffer) - max(cap(r.buf), idleBuffer); more != 0 {
		return r.Reserve(int64(more))
	}
	return nil
}

// shift follows bytes that move from one offset to another.
func (e *lineEnd) shift(from, to int) {
	e.at = max(e.at-from+to, -1)
	e.seen = max(e.seen-from+to, 0)
}

package server

import (
	"net/http"
	"time"

	"perigee"
	"perigee/internal/server/reqbody"
)

// uploadRetry is the Retry-After for a client that has too many large bodies under way.
const uploadRetry = 5 * time.Second

// maxBody returns the current maximum size of a body, and the setting that it comes from.
func (s *Server) maxBody() (limit int64, setting string) {
	limit, setting = s.settings.Load().MaxBody, "limits.body"
	if memory := s.opts.Memory.Size() / reqbody.Factor; memory > 0 && memory < limit {
		return memory, "limits.memory"
	}
	return limit, setting
}

// admitBody reserves memory for the body that the request announces, before any of it is read. The
// caller calls arrived in any case when the body has been read, or could not be.
func (c *call) admitBody() error {
	if err := c.lease.Open(c.opts.Memory, c.trusted); err != nil {
		return err
	}
	announced := c.r.ContentLength
	if announced > 0 && announced <= reqbody.Small {
		if err := c.lease.Fits(reqbody.Factor * announced); err != nil {
			return err
		}
	}
	return c.reserveBody(announced)
}

// arrived ends the upload of the body.
func (c *call) arrived() { c.uploads.Add(c.source(), &c.uploading, -c.uploading, 0) }

// reserveBody reserves memory for a body of so many bytes that is about to arrive.
func (c *call) reserveBody(size int64) error {
	if c.opts.Memory == nil {
		return nil
	}
	want := size
	if size > reqbody.Small {
		want = c.bodyWeight(size)
	}
	more := want - c.reserved
	if more <= 0 {
		return nil
	}
	if want > reqbody.Small && !c.trusted && !c.uploads.Add(c.source(), &c.uploading, want-c.uploading, c.opts.Memory.MaxCall()) {
		e := perigee.Errorf(perigee.ClassCapacity, "too many large bodies of %s are arriving at the same time", c.source()).
			WithHint("wait until one of them has been sent, or raise limits.memory")
		e.Status, e.Retry, e.Cause = http.StatusServiceUnavailable, uploadRetry, perigee.ErrNoMemory
		return e
	}
	if err := c.lease.Grow(more); err != nil {
		return err
	}
	c.reserved = want
	return nil
}

// bodyWeight returns the bytes that a body counts in the memory budget until the request is
// released.
func (c *call) bodyWeight(size int64) int64 { return reqbody.Weight(size, c.opts.Memory.MaxCall()) }

// trackBytes reserves memory to decode and encode the body, and stores the body in the call.
func (c *call) trackBytes(body []byte) error {
	c.body = body
	return c.reserveContent()
}

// recall sets the number of bytes of stored responses that the call has or is about to read, and
// reserves memory for them.
func (c *call) recall(bytes int64) error {
	c.recalled = bytes
	return c.reserveContent()
}

// fetches adds bytes of media that the call is about to fetch, and reserves memory for them: as
// much as for the same bytes in the body, because the prompt holds them and they are encoded for
// the provider.
func (c *call) fetches(bytes int64) error {
	c.fetched += bytes
	return c.reserveContent()
}

// checkConversation refuses to continue a stored response of this size if a body with the whole
// conversation would be too large.
func (c *call) checkConversation(size int64) error {
	limit := c.opts.Memory.Size() / reqbody.Factor
	if limit == 0 || int64(len(c.body))+c.recalled+size <= limit {
		return nil
	}
	e := perigee.Errorf(perigee.ClassInvalid, "with what is stored of it, the conversation is larger than %d bytes", limit).
		WithHint("start a new one with a summary of it, or raise limits.memory")
	e.Status = http.StatusRequestEntityTooLarge
	return e
}

// reserveContent adjusts the lease to exactly the memory of the body, the stored responses and the
// media of the call.
func (c *call) reserveContent() error {
	if c.opts.Memory == nil {
		return nil
	}
	weight := c.bodyWeight(int64(len(c.body)) + c.recalled + c.fetched)
	if err := c.lease.Grow(weight - c.reserved); err != nil {
		return err
	}
	c.lease.Shrink(c.reserved - weight)
	c.reserved = weight
	return nil
}

// drop removes the body from the call, releases the memory reserved for it, and returns it.
func (c *call) drop() (body []byte) {
	body, c.body = c.body, nil
	c.lease.Shrink(c.reserved)
	c.reserved, c.recalled, c.fetched = 0, 0, 0
	return body
}

// end releases all memory that the call has reserved. A call that continues in the background ends
// there.
func (c *call) end() {
	if !c.ongoing {
		c.drop()
		c.lease.Close()
	}
	c.log.Close()
}

// keptFactor is the number of bytes that a byte of a streamed answer counts if the encoder keeps
// the answer to the end: in the Responses API the last event repeats it, and it may be stored.
const keptFactor = 2

// storedFactor is the number of bytes that a byte of an answer counts while it is being stored: the
// response and its output are encoded, and the database copies both.
const storedFactor = 4

// source returns the client of the call: its key, or its address if there are no keys.
func (c *call) source() string {
	if c.key != nil {
		return "key " + c.key.Name
	}
	return remoteHost(c.r, "one client")
}

package server

import (
	"net/http"
	"time"

	"perigee"
	"perigee/internal/server/reqbody"
)

// uploadRetry is the Retry-After for a client that has too many large bodies under way.
const uploadRetry = 5 * time.Second

// maxBody is how large a body may be now, and the setting that says so.
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

// arrived says that the body is no longer under way.
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

// bodyWeight is what a body counts from its arrival until the request is released.
func (c *call) bodyWeight(size int64) int64 { return reqbody.Weight(size, c.opts.Memory.MaxCall()) }

// trackBytes reserves what decoding and encoding the body takes, and keeps the body with the call.
func (c *call) trackBytes(body []byte) error {
	c.body = body
	return c.reserveContent()
}

// recall says how many bytes of stored responses the call has, or is about to read, and reserves
// what they take beside the body.
func (c *call) recall(bytes int64) error {
	c.recalled = bytes
	return c.reserveContent()
}

// fetches says how many more bytes of media the call is about to have, and reserves what they take:
// as much as if the body had them, since the prompt holds them and they are encoded for the
// provider.
func (c *call) fetches(bytes int64) error {
	c.fetched += bytes
	return c.reserveContent()
}

// checkConversation refuses to go on from a stored response of that size where a body of the whole
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

// reserveContent has reserved what the body, the stored responses and the media of the call take,
// neither more nor less.
func (c *call) reserveContent() error {
	if c.opts.Memory == nil {
		return nil
	}
	weight := c.bodyWeight(int64(len(c.body)) + c.recalled + c.fetched)
	if weight > c.reserved {
		if err := c.lease.Grow(weight - c.reserved); err != nil {
			return err
		}
	} else {
		c.lease.Shrink(c.reserved - weight)
	}
	c.reserved = weight
	return nil
}

// drop says that the call no longer has its body, nor what was made of it, and returns what it was.
func (c *call) drop() (body []byte) {
	body, c.body = c.body, nil
	c.lease.Shrink(c.reserved)
	c.reserved, c.recalled, c.fetched = 0, 0, 0
	return body
}

// end releases all that the call has reserved. A call that goes on in the background ends there.
func (c *call) end() {
	if !c.ongoing {
		c.drop()
		c.lease.Close()
	}
	c.log.Close()
}

// keptFactor is what a byte of a streamed answer counts where the encoder keeps the answer to the
// end: in the Responses API the last event repeats it, and it may be stored.
const keptFactor = 2

// storedFactor is what a byte of an answer counts while it is being stored: the response and its
// output are encoded, and the database copies both.
const storedFactor = 4

// source is which client the call belongs to: its key, or its address where there are no keys.
func (c *call) source() string {
	if c.key != nil {
		return "key " + c.key.Name
	}
	return remoteHost(c.r, "one client")
}

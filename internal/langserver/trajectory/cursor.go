package trajectory

import (
	"hash/fnv"
	"slices"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
)

// A Cursor is the state of a Tracker: a small JSON document with which another Tracker continues
// without repeating or losing an event. It has lengths and hashes, no texts. The zero value starts
// with the first step of a conversation. Its members may change between versions.
type Cursor struct {
	// index of the first of Marks; the steps before it are final and no longer compared
	First    int    `json:"first,omitzero"`
	Turn     int    `json:"turn,omitzero"`  // index of the message that started the turn
	Over     bool   `json:"over,omitzero"`  // the end of the turn was reported
	Spent    Usage  `json:"spent,omitzero"` // usage of the steps of the turn before First
	Reported Usage  `json:"told,omitzero"`  // usage that was reported last
	Marks    []Mark `json:"marks,omitempty"`
}

// A Mark is the reported state of one step.
type Mark struct {
	Type   cortexpb.CortexStepType   `json:"t,omitzero"`
	Status cortexpb.CortexStepStatus `json:"s,omitzero"`
	// hash of the step; 0 if it was not reported completely yet
	Hash     uint64   `json:"h,omitzero"`
	Text     prefix   `json:"x,omitzero"` // of a message: the text of the user
	Thinking prefix   `json:"k,omitzero"`
	Calls    []uint64 `json:"c,omitempty"` // hashes
	// hashes of the inputs that it waits for
	Waiting []uint64                   `json:"w,omitempty"`
	Error   uint64                     `json:"e,omitzero"`
	Usage   Usage                      `json:"u,omitzero"`
	Stop    codeiumcommonpb.StopReason `json:"p,omitzero"`
	Ended   bool                       `json:"r,omitzero"` // its result was reported
	Started bool                       `json:"b,omitzero"` // its turn was reported
}

// final reports whether the step was reported completely and will not change. Some servers leave
// the status of messages out.
func (m *Mark) final() bool { return m.Hash != 0 && (terminal(m.Status) || m.Started) }

// maxMarks is the number of final steps that are kept. When the conversation is reverted beyond
// them, the oldest is reported as the first one that was removed.
const maxMarks = 64

// maxOpen is the maximum number of steps of a conversation that are not final.
const maxOpen = 4096

// Size returns the number of known steps.
func (c *Cursor) Size() int { return c.First + len(c.Marks) }

// clone returns a copy that shares nothing.
func (c *Cursor) clone() Cursor {
	d := *c
	d.Marks = slices.Clone(c.Marks)
	for i := range d.Marks {
		d.Marks[i].Calls = slices.Clone(d.Marks[i].Calls)
		d.Marks[i].Waiting = slices.Clone(d.Marks[i].Waiting)
	}
	return d
}

// usage returns the usage of the turn.
func (c *Cursor) usage() Usage {
	sum := c.Spent
	for i := range c.Marks {
		if c.First+i >= c.Turn {
			sum = sum.Plus(c.Marks[i].Usage)
		}
	}
	return sum
}

// prune drops marks of final steps beyond maxMarks.
func (c *Cursor) prune() {
	n := 0
	for len(c.Marks)-n > maxMarks && c.Marks[n].final() {
		if c.First+n >= c.Turn {
			c.Spent = c.Spent.Plus(c.Marks[n].Usage)
		}
		n++
	}
	c.First += n
	c.Marks = slices.Delete(c.Marks, 0, n)
}

// cut drops the marks from an index on. The current turn becomes the last one that remains.
func (c *Cursor) cut(at int) {
	if at < c.First {
		c.First, c.Marks = at, nil
	} else {
		c.Marks = c.Marks[:at-c.First]
	}
	if c.Turn < at {
		return
	}
	c.Turn, c.Spent = c.First, Usage{}
	for i := len(c.Marks) - 1; i >= 0; i-- {
		if c.Marks[i].Started {
			c.Turn = c.First + i
			return
		}
	}
}

// A prefix identifies a text that may have grown.
type prefix struct {
	Length int    `json:"n,omitzero"`
	Hash   uint64 `json:"h,omitzero"`
}

func prefixOf(text string) prefix {
	if text == "" {
		return prefix{}
	}
	return prefix{len(text), hashOf(text)}
}

// of reports whether a text starts with the prefix.
func (p prefix) of(text string) bool {
	return len(text) >= p.Length && (p.Length == 0 || hashOf(text[:p.Length]) == p.Hash)
}

func hashOf[T string | []byte](data T) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(data))
	return max(h.Sum64(), 1)
}

package signature

import "perigee"

const (
	maxQueue   = 10_000   // signatures kept while the store fails
	maxWaiting = 16 << 20 // bytes of them
)

// A queue is the signatures that wait for the store, in the order in which they came.
type queue struct {
	list  []perigee.Signature
	bytes int
	lost  int
}

// put queues a signature, if there is room.
func (q *queue) put(s perigee.Signature) {
	if len(q.list) >= maxQueue || q.bytes+size(s) > maxWaiting {
		q.lost++
		return
	}
	q.list = append(q.list, s)
	q.bytes += size(s)
}

// Size is how many signatures wait.
func (q *queue) Size() int { return len(q.list) }

// Take takes all of them.
func (q *queue) Take() []perigee.Signature {
	batch := q.list
	q.list, q.bytes = nil, 0
	return batch
}

// Done puts a batch that the store did not take before what has come since. Beyond the limits the oldest are given up.
func (q *queue) Done(batch []perigee.Signature, err error) {
	if err == nil {
		return
	}
	list := append(batch, q.list...)
	first, bytes := len(list), 0
	for first > 0 && len(list)-first < maxQueue && bytes+size(list[first-1]) <= maxWaiting {
		first--
		bytes += size(list[first])
	}
	q.list, q.bytes = list[first:], bytes
	q.lost += first
}

// Lost is how many were given up since it was last asked.
func (q *queue) Lost() int {
	lost := q.lost
	q.lost = 0
	return lost
}

// latest keeps the last signature of each key.
func latest(batch []perigee.Signature) []perigee.Signature {
	at := make(map[string]int, len(batch))
	var list []perigee.Signature
	for _, s := range batch {
		if i, ok := at[s.Key]; ok {
			list[i] = s
			continue
		}
		at[s.Key] = len(list)
		list = append(list, s)
	}
	return list
}

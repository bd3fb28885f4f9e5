package record

import "perigee"

// A row is a call on its way to the store. It waits in at most one list.
type row struct {
	call       perigee.Call
	in         *list
	prev, next *row
}

// A list is rows in the order they came. The links are inside the rows, so that queueing allocates nothing
// and a row leaves from the middle at once: most calls end while their open row is still waiting.
type list struct {
	first, last *row
	size        int
}

func (l *list) pushBack(r *row)  { l.insert(r, l.last, nil) }
func (l *list) pushFront(r *row) { l.insert(r, nil, l.first) }

func (l *list) insert(r, prev, next *row) {
	r.in, r.prev, r.next = l, prev, next
	if prev == nil {
		l.first = r
	} else {
		prev.next = r
	}
	if next == nil {
		l.last = r
	} else {
		next.prev = r
	}
	l.size++
}

func (l *list) remove(r *row) {
	if r.prev == nil {
		l.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.in, r.prev, r.next = nil, nil, nil
	l.size--
}

// A rowBatch is rows on their way to the store, and what each of them said when it was taken: it may say more by now.
type rowBatch struct {
	rows  []*row
	calls []perigee.Call
}

// A queue holds the rows that are not written yet, each in its latest state. Open rows are apart because
// they are the ones to lose when there are too many: their calls will be told of again.
type queue struct {
	open, ended list
	limit       int
	lost        int
	spare       rowBatch // the memory of the batch before
}

// Size is how many rows wait.
func (q *queue) Size() int { return q.open.size + q.ended.size }

func (q *queue) listFor(r *row) *list {
	if r.call.Outcome == perigee.OutcomeOpen {
		return &q.open
	}
	return &q.ended
}

// put queues a row with a new state, replacing the one that was waiting.
func (q *queue) put(r *row, call *perigee.Call) {
	if r.in != nil {
		r.in.remove(r)
	}
	r.call = *call
	q.listFor(r).pushBack(r)
	q.shrink()
}

// Take takes all rows, with the state that each has now.
func (q *queue) Take() rowBatch {
	batch := q.spare
	q.spare = rowBatch{}
	for _, l := range []*list{&q.open, &q.ended} {
		for r := l.first; r != nil; r = l.first {
			l.remove(r)
			batch.rows, batch.calls = append(batch.rows, r), append(batch.calls, r.call)
		}
	}
	return batch
}

// Done returns rows that could not be written to where they were. Those that have got a newer state since then are waiting
// already.
func (q *queue) Done(batch rowBatch, err error) {
	if err != nil {
		for i := len(batch.rows) - 1; i >= 0; i-- {
			if r := batch.rows[i]; r.in == nil {
				q.listFor(r).pushFront(r)
			}
		}
		q.shrink()
	}
	q.reuse(batch)
}

// reuse keeps the memory of a batch for the next one, but not that which a burst needed, and lets go of what was in it.
func (q *queue) reuse(batch rowBatch) {
	const usual = 1024
	if cap(batch.calls) > usual {
		return
	}
	clear(batch.rows)
	clear(batch.calls)
	q.spare = rowBatch{batch.rows[:0], batch.calls[:0]}
}

// Lost is how many rows were given up since it was last asked.
func (q *queue) Lost() int {
	lost := q.lost
	q.lost = 0
	return lost
}

// shrink loses the oldest rows beyond the limit, open ones first.
func (q *queue) shrink() {
	for q.Size() > q.limit {
		l := &q.open
		if l.size == 0 {
			l = &q.ended
		}
		l.remove(l.first)
		q.lost++
	}
}

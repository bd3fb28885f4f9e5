package batchwriter

import (
	"container/list"
	"slices"
)

// A row is a value that waits.
type row[K comparable, V any] struct {
	key        K
	value      V
	size       int
	expendable bool
	spare      *list.Element // its place in queue.spare, if it is expendable and waits
}

// A queue holds rows in the order in which they came, at most one of each key.
type queue[K comparable, V any] struct {
	order list.List // of *row[K, V]
	// spare has the expendable rows in the same order, so that finding one takes constant time.
	spare list.List
	rows  map[K]*list.Element
	bytes int
}

// add puts a row at the end of the queue, which has none with its key.
func (q *queue[K, V]) add(r *row[K, V]) {
	q.rows[r.key] = q.order.PushBack(r)
	q.bytes += r.size
	if r.expendable {
		r.spare = q.spare.PushBack(r)
	}
}

// remove takes out the row of a key, if there is one.
func (q *queue[K, V]) remove(key K) {
	if e := q.rows[key]; e != nil {
		r := q.order.Remove(e).(*row[K, V])
		q.bytes -= r.size
		delete(q.rows, key)
		if r.spare != nil {
			q.spare.Remove(r.spare)
		}
	}
}

// dropOne removes the oldest expendable row, or the oldest of all where there is none.
func (q *queue[K, V]) dropOne() {
	drop := q.spare.Front()
	if drop == nil {
		drop = q.order.Front()
	}
	q.remove(drop.Value.(*row[K, V]).key)
}

// take takes all rows.
func (q *queue[K, V]) take() (batch []*row[K, V], values []V) {
	for e := q.order.Front(); e != nil; e = e.Next() {
		r := e.Value.(*row[K, V])
		r.spare = nil
		batch, values = append(batch, r), append(values, r.value)
	}
	q.order.Init()
	q.spare.Init()
	clear(q.rows)
	q.bytes = 0
	return batch, values
}

// putBack returns rows to where they were, unless newer ones of their keys wait already.
func (q *queue[K, V]) putBack(batch []*row[K, V]) {
	for _, r := range slices.Backward(batch) {
		if q.rows[r.key] == nil {
			q.rows[r.key] = q.order.PushFront(r)
			q.bytes += r.size
			if r.expendable {
				r.spare = q.spare.PushFront(r)
			}
		}
	}
}

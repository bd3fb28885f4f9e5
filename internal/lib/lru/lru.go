// Package lru has a map that evicts its least recently used entries beyond a limit.
package lru

import "container/list"

// A Map holds at most MaxEntries entries with a total cost of at most MaxCost; 0 for any number. It
// is not safe for concurrent use. The limits are set before the first Put.
type Map[K comparable, V any] struct {
	MaxEntries int
	MaxCost    int
	Cost       func(K, V) int // needed with MaxCost

	entries map[K]*list.Element
	order   list.List // of *entry[K, V], the most recently used first
	cost    int
}

type entry[K comparable, V any] struct {
	key   K
	value V
	cost  int
}

// Get returns the value of a key and counts as use of it.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	at, ok := m.entries[key]
	if !ok {
		return value, false
	}
	m.order.MoveToFront(at)
	return at.Value.(*entry[K, V]).value, true
}

// Keys returns all keys, the most recently used first.
func (m *Map[K, V]) Keys() (keys []K) {
	for e := m.order.Front(); e != nil; e = e.Next() {
		keys = append(keys, e.Value.(*entry[K, V]).key)
	}
	return keys
}

// Put sets the value of a key and evicts entries beyond the limits. A value that costs more than
// MaxCost is not kept.
func (m *Map[K, V]) Put(key K, value V) {
	m.Delete(key)
	e := &entry[K, V]{key: key, value: value}
	if m.MaxCost > 0 {
		if e.cost = m.Cost(key, value); e.cost > m.MaxCost {
			return
		}
	}
	if m.entries == nil {
		m.entries = map[K]*list.Element{}
	}
	m.entries[key] = m.order.PushFront(e)
	m.cost += e.cost
	for m.MaxCost > 0 && m.cost > m.MaxCost || m.MaxEntries > 0 && m.order.Len() > m.MaxEntries {
		m.Delete(m.order.Back().Value.(*entry[K, V]).key)
	}
}

// Delete removes a key.
func (m *Map[K, V]) Delete(key K) {
	if at, ok := m.entries[key]; ok {
		m.cost -= m.order.Remove(at).(*entry[K, V]).cost
		delete(m.entries, key)
	}
}

// Clear removes all keys.
func (m *Map[K, V]) Clear() {
	clear(m.entries)
	m.order.Init()
	m.cost = 0
}

// Len returns the number of entries.
func (m *Map[K, V]) Len() int { return m.order.Len() }

// TotalCost returns the total cost of the entries.
func (m *Map[K, V]) TotalCost() int { return m.cost }

package lru

import "testing"

func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	m := Map[string, int]{MaxEntries: 2}
	m.Put("a", 1)
	m.Put("b", 2)
	m.Get("a")
	m.Put("c", 3)
	for key, want := range map[string]int{"a": 1, "b": 0, "c": 3} {
		if got, ok := m.Get(key); got != want || ok != (want != 0) {
			t.Errorf("%s: %d, %t", key, got, ok)
		}
	}
	m.Delete("a")
	m.Delete("a")
	if m.Clear(); m.Len() != 0 {
		t.Errorf("%d entries after Clear", m.Len())
	}
	m.Put("d", 4)
	if got, ok := m.Get("d"); got != 4 || !ok {
		t.Error("nothing can be put after Clear")
	}
}

func TestCostIsLimited(t *testing.T) {
	m := Map[string, string]{MaxCost: 10, Cost: func(_, v string) int { return len(v) }}
	m.Put("a", "12345")
	m.Put("b", "12345")
	m.Put("b", "123456")
	if m.TotalCost() != 6 || m.Len() != 1 {
		t.Errorf("%d bytes in %d entries", m.TotalCost(), m.Len())
	}
	if m.Put("b", "12345678901"); m.TotalCost() != 0 || m.Len() != 0 {
		t.Errorf("a value that is too large is kept: %d bytes in %d entries", m.TotalCost(), m.Len())
	}
}

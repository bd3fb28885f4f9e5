package httpapi

import (
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// When nobody asks any more the house is told, once for each time of rest.
func TestIdleIsToldAfterTheLastCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rests atomic.Int32
		s := New(Options{OnIdle: func(int) { rests.Add(1) }}, Settings{})
		defer s.Close()
		for range 3 {
			s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://localhost/", nil))
			time.Sleep(idleTime / 2)
		}
		if n := rests.Load(); n != 0 {
			t.Errorf("told %d times between calls", n)
		}
		for range 3600 { // which a load balancer does, and which is no call
			s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://localhost/health", nil))
			time.Sleep(time.Second)
		}
		if n := rests.Load(); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}

// While calls are open, and no other begins, it is told how many.
func TestIdleIsToldWhileCallsAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // timers run in goroutines of their own
		var told []int
		s := New(Options{OnIdle: func(open int) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, open)
		}}, Settings{})
		defer s.Close()
		s.enter()
		s.enter()
		time.Sleep(time.Hour)
		s.leave()
		s.leave()
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if want := []int{2, 0}; !slices.Equal(told, want) {
			t.Errorf("told %d, want %d", told, want)
		}
	})
}

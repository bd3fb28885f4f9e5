package server

import (
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// OnIdle is called once after the last call.
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

// While calls are open, and no other begins, OnIdle gets their number.
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
		s.beginCall()
		s.beginCall()
		time.Sleep(time.Hour)
		s.endCall()
		s.endCall()
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if want := []int{2, 0}; !slices.Equal(told, want) {
			t.Errorf("told %d, want %d", told, want)
		}
	})
}

// Close waits for OnIdle, and nothing calls it afterwards.
func TestCloseWaitsForIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told, ended atomic.Int32
		s := New(Options{OnIdle: func(int) {
			told.Add(1)
			time.Sleep(time.Minute)
			ended.Add(1)
		}}, Settings{})
		s.beginCall()
		time.Sleep(idleTime)
		synctest.Wait()
		s.Close()
		if told.Load() != 1 || ended.Load() != 1 {
			t.Errorf("told %d times, ended %d times", told.Load(), ended.Load())
		}
		s.endCall()
		time.Sleep(time.Hour)
		if told.Load() != 1 {
			t.Errorf("told %d times after Close", told.Load())
		}
	})
}

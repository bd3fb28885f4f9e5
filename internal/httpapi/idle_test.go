package httpapi

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// When nobody asks any more the house is told, once for each time of rest.
func TestIdleIsToldAfterTheLastCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rests := 0
		s := New(Options{OnIdle: func() { rests++ }}, Settings{})
		defer s.Close()
		for range 3 {
			s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://localhost/health", nil))
			time.Sleep(idleTime / 2)
		}
		if rests != 0 {
			t.Errorf("told %d times between calls", rests)
		}
		time.Sleep(time.Hour)
		if rests != 1 {
			t.Errorf("told %d times", rests)
		}
	})
}

package daemon

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// What the manager has said is for this process alone: children do not inherit it, and another
// process's is not taken.
func TestTakeRemovesTheVariables(t *testing.T) {
	own, other := strconv.Itoa(os.Getpid()), strconv.Itoa(os.Getpid()+1)
	for _, c := range []struct {
		env      map[string]string
		notify   string
		watchdog time.Duration
		err      bool
	}{
		{env: map[string]string{}},
		{env: map[string]string{"LISTEN_PID": other, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "x"}},
		{env: map[string]string{"LISTEN_FDS": "1"}},
		{env: map[string]string{"LISTEN_PID": own, "LISTEN_FDS": "0"}},
		{env: map[string]string{"LISTEN_PID": own, "LISTEN_FDS": "many"}, err: true},
		{env: map[string]string{"LISTEN_PID": own, "LISTEN_FDS": "-1"}, err: true},
		{env: map[string]string{"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "3000000"}, notify: "/run/notify", watchdog: 3 * time.Second},
		{env: map[string]string{"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": own}, watchdog: 3 * time.Second},
		{env: map[string]string{"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": other}},
		{env: map[string]string{"WATCHDOG_USEC": "soon"}},
	} {
		for _, name := range variables {
			t.Setenv(name, "") // restored at the end
			_ = os.Unsetenv(name)
		}
		for name, value := range c.env {
			_ = os.Setenv(name, value)
		}
		s, err := TakeSystemd()
		if (err != nil) != c.err || err == nil && (s.notify != c.notify || s.watchdog != c.watchdog || len(s.Listeners) != 0) {
			t.Errorf("%v: %+v, %v", c.env, s, err)
		}
		for _, name := range variables {
			if value, ok := os.LookupEnv(name); ok {
				t.Errorf("%v: %s is still %q", c.env, name, value)
			}
		}
	}
}

func TestNothingIsSentWithoutAManager(t *testing.T) {
	var none *SystemdService
	for _, s := range []*SystemdService{none, {}} {
		if err := s.Ready("x"); err != nil {
			t.Error(err)
		}
		s.Watch(t.Context()) // returns at once
	}
	if err := (&SystemdService{notify: "vsock:2:1234"}).Ready("x"); err == nil {
		t.Error("sent to an address of a kind that is not supported")
	}
}

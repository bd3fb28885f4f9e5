package perigeetest

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Unprivileged has the modes of files apply to the goroutine of the test until the test ends, also if
// root runs it: the thread of the goroutine loses the capabilities that override them. Goroutines
// that the test starts keep them.
func Unprivileged(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	runtime.LockOSThread()
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var before [2]unix.CapUserData
	if err := unix.Capget(header, &before[0]); err != nil {
		t.Fatal(err)
	}
	set := func(data [2]unix.CapUserData) {
		if err := unix.Capset(header, &data[0]); err != nil {
			t.Error(err)
		}
	}
	without := before
	without[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	set(without)
	t.Cleanup(func() {
		set(before)
		runtime.UnlockOSThread()
	})
}

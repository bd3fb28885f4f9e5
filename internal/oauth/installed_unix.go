//go:build unix

package oauth

import "syscall"

// openAtOnce keeps opening from waiting for whoever is at the other end.
const openAtOnce = syscall.O_NONBLOCK

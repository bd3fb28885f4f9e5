//go:build !unix

package oauth

// openAtOnce keeps opening from waiting, which it does not do here.
const openAtOnce = 0

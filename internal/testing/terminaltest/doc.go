// Package terminaltest makes terminals for tests of what perigee writes to a person. It has them on
// Linux only.
package terminaltest

// Package lazyregexp has regular expressions that are compiled at their first use. A package that
// compiles one in a variable makes every command wait for it.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that compiles a regular expression when it is first called, and returns
// the same one from then on. It may be called from many goroutines at once, and panics if the text
// is not a regular expression.
func New(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

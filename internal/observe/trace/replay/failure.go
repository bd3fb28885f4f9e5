package replay

import (
	"fmt"
	"strings"

	"perigee"
	"perigee/internal/lib/lazyregexp"
)

// A failure describes how a call failed. It has to stay the same when the request is made smaller.
type failure struct {
	Status   int // of the answer to the client
	Class    perigee.Class
	Provider bool // the provider refused the request, not perigee
	Message  string
}

// same reports whether two calls failed in the same way: with the same status and class, refused by
// the same party, and with the same first line of the message but for numbers and quoted paths,
// which change with the request.
func (f failure) same(other failure) bool {
	return f.Status == other.Status && f.Class == other.Class && f.Provider == other.Provider && mask(f.Message) == mask(other.Message)
}

// String returns a short description of the failure.
func (f failure) String() string {
	switch {
	case f.Class == "":
		return "answered"
	case f.Message == "":
		return fmt.Sprintf("%d %s", f.Status, f.Class)
	}
	return fmt.Sprintf("%d %s (%s)", f.Status, f.Class, mask(f.Message))
}

var (
	quotedPath = lazyregexp.New("'[^'\\s]*[./\\\\\\[][^'\\s]*'|\"[^\"\\s]*[./\\\\\\[][^\"\\s]*\"|`[^`\\s]*[./\\\\\\[][^`\\s]*`")
	number     = lazyregexp.New(`\d+`)
)

// mask returns the first line of a message with # for each number and a dash for each quoted path.
// A path is a word in quotes that has a dot, a slash or a bracket in it.
func mask(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	return number().ReplaceAllString(quotedPath().ReplaceAllString(line, "-"), "#")
}

package providererr

import (
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/lib/lazyregexp"
)

// A TooLong is the size of a conversation that does not fit into the model, and the limit of the
// model, in tokens. Zeros are unknown.
type TooLong struct{ Tokens, Limit int64 }

// tooLongSizes matches messages with which providers refuse a conversation that is too long. A group
// with a name that begins with n is its size, one with a name that begins with m is the limit.
var tooLongSizes = lazyregexp.New(`(?i)` + strings.Join([]string{
	`input token count \((?P<n1>\d+)\) exceeds the maximum number of tokens allowed \((?P<m1>\d+)\)`, // Gemini
	`prompt is too long: (?P<n2>\d+) tokens > (?P<m2>\d+) maximum`,                                   // Anthropic
	`maximum context length is (?P<m3>\d+) tokens(?:[^0-9]*(?P<n3>\d+) tokens)?`,                     // OpenAI, vLLM
	`request \((?P<n4>\d+) tokens\) exceeds the available context size \((?P<m4>\d+) tokens\)`,       // llama.cpp
}, "|"))

// tooLong matches such messages without sizes.
var tooLong = lazyregexp.New(`(?i)prompt is too long|input token count exceeds the maximum|input exceeds the context window|input is too long`)

// AsTooLong returns the sizes in an error about a conversation that is too long, or nil if it is
// about something else.
func AsTooLong(err *perigee.Error) *TooLong {
	if err.Class != perigee.ClassInvalid {
		return nil
	}
	pattern := tooLongSizes()
	found := pattern.FindStringSubmatch(err.Message)
	if found == nil {
		if tooLong().MatchString(err.Message) {
			return &TooLong{}
		}
		return nil
	}
	long := &TooLong{}
	for i, name := range pattern.SubexpNames() {
		if i == 0 || name == "" || found[i] == "" {
			continue
		}
		n, _ := strconv.ParseInt(found[i], 10, 64) // 0 if it is out of range
		if name[0] == 'n' {
			long.Tokens = n
		} else {
			long.Limit = n
		}
	}
	return long
}

// Known reports whether both sizes are known.
func (t *TooLong) Known() bool { return t.Tokens > 0 && t.Limit > 0 }

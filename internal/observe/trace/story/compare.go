package story

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// A Result is the difference of two answers.
type Result struct {
	Same        bool         `json:"same"`
	Differences []Difference `json:"differences"`
}

// A Difference is a part in which two answers differ. If only one answer has the part, the other
// text is empty.
type Difference struct {
	Where string `json:"where"` // text, tool_calls[0], usage.output_tokens, notes[0], error
	Was   string `json:"was"`
	Is    string `json:"is"`
}

// Compare compares an answer with the one before it.
func Compare(was, is Answer) Result {
	r := Result{Differences: []Difference{}}
	add := func(where, was, is string) {
		if was != is {
			r.Differences = append(r.Differences, Difference{where, was, is})
		}
	}
	add("error", was.Error, is.Error)
	add("text", was.Text, is.Text)
	each := func(where string, was, is []string) {
		for i := range max(len(was), len(is)) {
			add(fmt.Sprintf("%s[%d]", where, i), at(was, i), at(is, i))
		}
	}
	each("tool_calls", was.calls(), is.calls())
	for i, field := range usageFields {
		add("usage."+field, strconv.FormatInt(was.usage()[i], 10), strconv.FormatInt(is.usage()[i], 10))
	}
	each("notes", was.Notes, is.Notes)
	r.Same = len(r.Differences) == 0
	return r
}

// usageFields are the names of the values of usage.
var usageFields = []string{"input_tokens", "cached_tokens", "output_tokens", "thinking_tokens"}

func (a *Answer) usage() []int64 {
	return []int64{a.Usage.Input, a.Usage.Cached, a.Usage.Output, a.Usage.Thinking}
}

// calls returns the function calls, each as a line.
func (a *Answer) calls() (list []string) {
	for _, c := range a.Calls {
		list = append(list, c.Name+"("+c.Args+")")
	}
	return list
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

// Unified returns the differences as a unified diff, empty if there are none. wasName and isName
// are the names of the two sides.
func Unified(wasName string, was Answer, isName string, is Answer) string {
	return string(diff.Diff(wasName, []byte(was.String()), isName, []byte(is.String())))
}

// String returns the answer as lines.
func (a *Answer) String() string {
	var b strings.Builder
	for _, line := range []struct{ name, text string }{{"error", a.Error}, {"text", a.Text}} {
		if line.text != "" {
			fmt.Fprintf(&b, "%s:\n%s\n", line.name, strings.TrimRight(line.text, "\n"))
		}
	}
	for _, call := range a.calls() {
		fmt.Fprintf(&b, "tool call: %s\n", call)
	}
	for i, field := range usageFields {
		fmt.Fprintf(&b, "%s: %d\n", strings.ReplaceAll(field, "_", " "), a.usage()[i])
	}
	for _, note := range a.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	return b.String()
}

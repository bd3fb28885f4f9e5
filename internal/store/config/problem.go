package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Problem is an error in a configuration: its place, a description and a hint. It never contains
// a secret.
type Problem struct {
	Origin
	Message string
	Hint    string // may be empty
}

func (p Problem) String() string {
	text := p.Message
	if p.Hint != "" {
		text += "; " + p.Hint
	}
	switch {
	case p.Line > 0:
		return fmt.Sprintf("%s:%d:%d: %s", p.Source, p.Line, p.Column, text)
	case p.Source != "":
		return p.Source + ": " + text
	}
	return text
}

// maxProblems is how many problems are shown. More of them usually have one cause.
const maxProblems = 100

// Problems are all problems of a configuration: those in the file by line, then environment and
// flags.
type Problems struct {
	List []Problem
	More int // problems that are not in List
}

func newProblems(list []Problem) *Problems {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(min(b.Line, 1), min(a.Line, 1)), // in the file
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Source, b.Source),
		)
	})
	list = slices.Compact(list)
	shown := min(len(list), maxProblems)
	return &Problems{List: list[:shown], More: len(list) - shown}
}

// Error has one line for each problem.
func (p *Problems) Error() string {
	var lines []string
	for _, problem := range p.List {
		lines = append(lines, problem.String())
	}
	if p.More > 0 {
		lines = append(lines, fmt.Sprintf("and there are %d more problems", p.More))
	}
	return strings.Join(lines, "\n")
}

// An Origin is where a value was set: "default", the path of the file, "environment PERIGEE_LISTEN"
// or "flag --listen". Line and Column count from 1 and are 0 outside the file.
type Origin struct {
	Source string
	Line   int
	Column int
}

func (o Origin) String() string {
	if o.Line == 0 {
		return o.Source
	}
	return fmt.Sprintf("%s:%d", o.Source, o.Line)
}

const fromDefault = "default"

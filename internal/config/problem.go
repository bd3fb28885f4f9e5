package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Problem is one thing that is wrong, where it stands, and what to do about it. It never holds the
// value of a secret.
type Problem struct {
	Origin
	Message string
	Hint    string // may be empty
}

func (p Problem) String() string {
	where := p.Source
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", p.Source, p.Line, p.Column)
	}
	if where != "" {
		where += ": "
	}
	if p.Hint == "" {
		return where + p.Message
	}
	return where + p.Message + "; " + p.Hint
}

// maxProblems is how many problems are told. Who has more has one that is behind them all.
const maxProblems = 100

// Problems are all that is wrong at once, in the order of the file, then environment and flags.
type Problems struct {
	List []Problem
	More int // that are left out, because nobody reads so many
}

// Error gives one line for each problem.
func (p *Problems) Error() string {
	lines := make([]string, len(p.List), len(p.List)+1)
	for i, problem := range p.List {
		lines[i] = problem.String()
	}
	if p.More > 0 {
		lines = append(lines, fmt.Sprintf("and there are %d more problems", p.More))
	}
	return strings.Join(lines, "\n")
}

// shorten leaves out what is too much.
func (p *Problems) shorten() {
	if len(p.List) > maxProblems {
		p.List, p.More = slices.Clone(p.List[:maxProblems]), len(p.List)-maxProblems
	}
}

// sort puts what stands in the file first, and drops what was said twice.
func (p *Problems) sort() {
	slices.SortStableFunc(p.List, func(a, b Problem) int {
		if inFile := cmp.Compare(min(b.Line, 1), min(a.Line, 1)); inFile != 0 {
			return inFile
		}
		if a.Line > 0 {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		}
		return cmp.Compare(a.Source, b.Source)
	})
	p.List = slices.Compact(p.List)
}

// An Origin says where a value came from: "default", the path of the file, "environment PERIGEE_LISTEN"
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

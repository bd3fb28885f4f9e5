package config

import (
	"strconv"
	"strings"
)

// A Comparison is a condition on a number. The zero Comparison is none.
type Comparison struct {
	Operator string // one of >, >=, < and <=; empty if there is no condition
	Number   int64
}

// parseComparison reads an operator and a number, such as >200000.
func parseComparison(text string) (c Comparison, ok bool) {
	for _, operator := range []string{">=", "<=", ">", "<"} {
		if number, found := strings.CutPrefix(text, operator); found {
			n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
			return Comparison{operator, n}, err == nil && n >= 0
		}
	}
	return c, text == ""
}

// Holds reports whether n is within the condition.
func (c Comparison) Holds(n int64) bool {
	switch c.Operator {
	case ">":
		return n > c.Number
	case ">=":
		return n >= c.Number
	case "<":
		return n < c.Number
	case "<=":
		return n <= c.Number
	}
	return true
}

// String returns the comparison as in the file.
func (c Comparison) String() string {
	if c.Operator == "" {
		return ""
	}
	return c.Operator + strconv.FormatInt(c.Number, 10)
}

// String returns what the condition names, as in the file: "agent: sub, tools: false". It is empty if
// there is no condition.
func (c Condition) String() string {
	var list []string
	add := func(name string, value any) {
		if text := textOf(value); text != "" {
			list = append(list, name+": "+text)
		}
	}
	add("agent", c.Agent)
	add("input_tokens", c.InputTokens)
	add("images", c.Images)
	add("tools", c.Tools)
	return strings.Join(list, ", ")
}

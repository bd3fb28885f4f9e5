package models

import (
	"strconv"
	"strings"

	"perigee"
)

// thinkingWords are what can stand in parentheses behind a name, beside a number of tokens.
var thinkingWords = map[string]perigee.Thinking{
	"none":    {Budget: new(int64(0))},
	"auto":    {Budget: new(int64(-1))},
	"minimal": {Level: "minimal"},
	"low":     {Level: "low"},
	"medium":  {Level: "medium"},
	"high":    {Level: "high"},
	"xhigh":   {Level: "xhigh"},
	"max":     {Level: "max"},
}

// Split takes a wish for thinking off the name of a model: gemini-3-flash(high),
// gemini-2.5-pro(8192), …(none), …(auto) always, and gemini-3-flash-high only where that is not
// itself a model while gemini-3-flash is. A name without such a suffix comes back as it is, with
// nil. Only names that could have the short form are asked of known.
func Split(name string, known func(string) bool) (base string, thinking *perigee.Thinking) {
	if inner, ok := strings.CutSuffix(name, ")"); ok {
		open := strings.LastIndexByte(inner, '(')
		if open <= 0 {
			return name, nil
		}
		if t := wish(inner[open+1:]); t != nil {
			return inner[:open], t
		}
		return name, nil
	}
	dash := strings.LastIndexByte(name, '-')
	if dash <= 0 {
		return name, nil
	}
	switch level := name[dash+1:]; level {
	case "minimal", "low", "medium", "high":
		if base := name[:dash]; !known(name) && known(base) {
			return base, &perigee.Thinking{Level: level}
		}
	}
	return name, nil
}

// wish reads what stands between parentheses; nil when it is no wish for thinking.
func wish(text string) *perigee.Thinking {
	if t, ok := thinkingWords[text]; ok {
		if t.Budget != nil {
			t.Budget = new(*t.Budget) // the table's own stays its own
		}
		return &t
	}
	if budget, err := strconv.ParseInt(text, 10, 32); err == nil && budget >= -1 {
		return &perigee.Thinking{Budget: &budget}
	}
	return nil
}

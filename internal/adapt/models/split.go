package models

import (
	"strconv"
	"strings"

	"perigee"
)

// Split separates a thinking suffix from the name of a model: gemini-3-flash(high),
// gemini-2.5-pro(8192), …(none), …(auto) always, and gemini-3-flash-high and gemini-3-flash-thinking
// only where that is not itself a model while gemini-3-flash is. A name without such a suffix is
// returned unchanged, with nil. known is called only for names that could have the short form.
//
// Include is set for -thinking alone, which asks for the model's default: a request that sets how
// much to think takes precedence.
func Split(name string, known func(string) bool) (base string, thinking *perigee.Thinking) {
	if inner, ok := strings.CutSuffix(name, ")"); ok {
		open := strings.LastIndexByte(inner, '(')
		if open <= 0 {
			return name, nil
		}
		if t := parseThinking(inner[open+1:]); t != nil {
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
	case "thinking":
		if base := name[:dash]; !known(name) && known(base) {
			return base, &perigee.Thinking{Include: new(true), Budget: new(int64(-1))}
		}
	}
	return name, nil
}

// parseThinking reads the text between parentheses; it returns nil if it is not a thinking setting.
func parseThinking(text string) *perigee.Thinking {
	switch text {
	case "none":
		return &perigee.Thinking{Budget: new(int64(0))}
	case "auto":
		return &perigee.Thinking{Budget: new(int64(-1))}
	case "minimal", "low", "medium", "high", "xhigh", "max":
		return &perigee.Thinking{Level: text}
	}
	if budget, err := strconv.ParseInt(text, 10, 32); err == nil && budget >= -1 {
		return &perigee.Thinking{Budget: &budget}
	}
	return nil
}

package config

import (
	"maps"
	"regexp"
	"slices"

	"perigee/internal/names"
)

// thinkingSuffix is what may stand behind the name of a model and says how much it should think.
var thinkingSuffix = regexp.MustCompile(`(?:\([^()]*\)|-(?:minimal|low|medium|high))$`)

// checkModelNames speaks of names that are nearly those of models. Whether a name is one only the upstreams know, so it is no problem.
func (l *loader) checkModelNames() {
	if len(l.src.Models) == 0 {
		return
	}
	l.checkModelName("models.default", l.config.Models.Default)
	l.checkModelName("models.fallback", l.config.Models.Fallback)
	for _, alias := range slices.Sorted(maps.Keys(l.config.Models.Aliases)) {
		l.checkModelName(join("models.aliases", alias), l.config.Models.Aliases[alias])
	}
}

func (l *loader) checkModelName(key, name string) {
	_, alias := l.config.Models.Aliases[name]
	base := thinkingSuffix.ReplaceAllString(name, "")
	if name == "" || alias || !l.good(key) || slices.Contains(l.src.Models, name) || slices.Contains(l.src.Models, base) {
		return
	}
	near := l.hint(func() string { return misspeltModel(name, base, l.src.Models) })
	if near != "" {
		l.warnAt(l.origin(key), "%s: no model called %q is known; did you mean %s?", key, name, near)
	}
}

// misspeltModel is the known name that was meant by one that may end in a wish for thinking, which base does not. Models that
// differ in a number are different models.
func misspeltModel(name, base string, known []string) string {
	near, least := "", maxMisspelt+1
	for _, model := range known {
		if d := min(names.Distance(name, model), names.Distance(base, model)); d < least && names.SameNumbers(model, base) {
			near, least = model, d
		}
	}
	return near
}

// maxMisspelt is how many letters somebody may get wrong.
const maxMisspelt = 2

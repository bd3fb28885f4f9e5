package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"perigee/internal/names"
)

// maxCompared is how many words another one is compared with.
const maxCompared = 1000

// nearest is the known word that was most likely meant, or "".
func nearest(word string, known []string) string {
	known = known[:min(len(known), maxCompared)]
	if found := names.Nearest(word, known, 1); len(found) > 0 {
		return found[0]
	}
	return ""
}

// wholes says of each variable that would set more than one value, and therefore sets none, what to do instead.
func wholes(t reflect.Type, key string) map[string]string {
	list := make(map[string]string)
	for _, f := range fieldsOf(t) {
		key := join(key, f.name)
		name := leaf{key: key}.env()
		switch {
		case isStruct(f.typ):
			within := leavesOf(f.typ, key, nil)
			list[name] = fmt.Sprintf("%s holds several settings, which have variables of their own, such as %s", key, within[0].env())
			maps.Copy(list, wholes(f.typ, key))
		case !isScalar(f.typ):
			list[name] = fmt.Sprintf("lists and maps are set in the file; write %s there", key)
		}
	}
	return list
}

// findMisspeltEnvironment reports PERIGEE_ variables that are nearly one of ours. What is further off
// belongs to somebody else, and what the file refers to is known.
func (l *loader) findMisspeltEnvironment() {
	if l.src.Environ == nil {
		return
	}
	known := []string{EnvFile}
	for _, leaf := range leaves() {
		known = append(known, leaf.env())
	}
	whole := wholes(reflect.TypeFor[Config](), "")
	for _, entry := range l.src.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "PERIGEE_") || slices.Contains(known, name) || l.envNames[name] {
			continue
		}
		if what, ok := whole[name]; ok {
			l.problems.List = append(l.problems.List, Problem{Origin{Source: "environment " + name}, what, ""})
			continue
		}
		near := slices.MinFunc(known, func(a, b string) int { return cmp.Compare(names.Distance(name, a), names.Distance(name, b)) })
		if names.Distance(name, near) <= 2 {
			l.problems.List = append(l.problems.List, Problem{
				Origin{Source: "environment " + name}, "unknown variable", fmt.Sprintf("did you mean %s?", near),
			})
		}
	}
}

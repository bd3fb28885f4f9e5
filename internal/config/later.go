package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// What this version has not got stands in the tags called later, and nowhere else. Of its own accord nobody has to
// ask for it: a setting without effect is a warning, and a kind of upstream that nobody can build is a problem, unless
// no upstream will be asked anyway.

const notInThisVersion = "not in this version"

// upstreamHint is for who asked for a kind that there is not.
const upstreamHint = "kind gemini, with an API key, is the recommended source"

// laterKind says whether this version has no upstream of a kind.
func laterKind(kind string) bool {
	return slices.Contains(kindField().later, kind)
}

// idle says whether nothing looks at the field: because of its tag, or because it belongs to such kinds only.
func (f field) idle() bool {
	return f.unused || f.kinds != nil && !slices.ContainsFunc(f.kinds, func(kind string) bool { return !laterKind(kind) })
}

// explain is the text of the field in the manual, with what the tags say about this version.
func (f field) explain() string {
	text := manual[f.path]
	switch {
	case len(f.later) > 0:
		text += fmt.Sprintf(" %s are %s.", strings.Join(f.later, " and "), notInThisVersion)
	case f.idle():
		text += " It has no effect: it is " + notInThisVersion + "."
	}
	return text
}

// choices are the values that the field can have in this version.
func (f field) choices() []string {
	return slices.DeleteFunc(slices.Clone(f.enum), func(value string) bool { return slices.Contains(f.later, value) })
}

// checkLater finds what somebody set and this version has not got.
func (l *loader) checkLater(v reflect.Value, key string) {
	for _, f := range fieldsOf(v.Type()) {
		key, value := join(key, f.name), v.Field(f.index)
		switch {
		case f.unused:
			l.warnUnused(key)
		case isStruct(f.typ):
			l.checkLater(value, key)
		case f.typ.Kind() == reflect.Slice && isStruct(f.typ.Elem()):
			for i := range value.Len() {
				l.checkLater(value.Index(i), fmt.Sprintf("%s[%d]", key, i))
			}
		case len(f.later) > 0 && l.isSet(key) && l.good(key) && slices.Contains(f.later, value.String()) && !l.spared(key):
			l.problem(key, fmt.Sprintf("%s: this version of perigee cannot use %s %s", key, f.name, value), upstreamHint)
		}
	}
}

// warnUnused says that a key, or something in it, was set in vain.
func (l *loader) warnUnused(key string) {
	if l.isSet(key) && l.good(key) {
		l.warnAt(l.origins[key], "%s has no effect: it is %s", key, notInThisVersion)
	}
	for _, leaf := range leaves() {
		if origin, ok := l.origins[leaf.key]; ok && strings.HasPrefix(leaf.key, key+".") && origin.Line == 0 {
			l.warnAt(origin, "%s has no effect: it is %s", leaf.key, notInThisVersion)
		}
	}
}

// spared says that what a key says will not be used.
func (l *loader) spared(key string) bool { return l.src.Spare != nil && l.src.Spare(key) }

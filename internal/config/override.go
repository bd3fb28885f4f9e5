package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// applyEnvironment sets every scalar outside lists whose PERIGEE_ variable is set.
func (l *loader) applyEnvironment() {
	for _, leaf := range leaves() {
		if value := l.src.lookup(leaf.env()); value != "" {
			l.setLeaf(l.field(leaf), value, leaf.key, Origin{Source: "environment " + leaf.env()}, leaf.field)
		}
	}
}

// applyFlags sets what was typed, in an order that does not change from run to run.
func (l *loader) applyFlags() {
	known := leaves()
	for _, key := range slices.Sorted(maps.Keys(l.src.Flags)) {
		origin := Origin{Source: "flag --" + strings.ReplaceAll(key, "_", "-")}
		i := slices.IndexFunc(known, func(leaf leaf) bool { return leaf.key == key })
		if i < 0 {
			l.problems.List = append(l.problems.List, Problem{origin, fmt.Sprintf("unknown key %q", key), ""})
			continue
		}
		l.setLeaf(l.field(known[i]), l.src.Flags[key], key, origin, known[i].field)
	}
}

func (l *loader) field(leaf leaf) reflect.Value {
	return reflect.ValueOf(l.config).Elem().FieldByIndex(leaf.index)
}

// fillDefaults gives everything that nobody set the value of its tag. Upstreams get those of their kind.
func (l *loader) fillDefaults(v reflect.Value, key, kind string) {
	for _, f := range fieldsOf(v.Type()) {
		key, value := join(key, f.name), v.Field(f.index)
		switch {
		case kind != "" && !f.belongs(kind):
		case isStruct(f.typ):
			l.fillDefaults(value, key, "")
		case f.typ.Kind() == reflect.Slice && isStruct(f.typ.Elem()):
			for i := range value.Len() {
				item := value.Index(i)
				kind := ""
				if upstream, ok := item.Interface().(Upstream); ok {
					kind = upstream.Kind
				}
				l.fillDefaults(item, fmt.Sprintf("%s[%d]", key, i), kind)
			}
		case l.isSet(key):
		case key == "data_dir":
			l.config.DataDir = l.src.dataDir()
		case f.hasInit && f.typ.Kind() == reflect.Slice:
			value.Set(reflect.ValueOf(strings.Split(f.initial, ",")))
		case f.hasInit:
			if err := setScalar(value, f.initial, f); err != nil {
				panic("config: default of " + key + ": " + err.Error())
			}
		}
	}
}

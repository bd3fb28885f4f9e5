package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"perigee"
)

// A Value is one setting as it is in effect. Key is dotted, with list items counted from 0:
// "upstreams[0].keys[1]". Value is as one would write it in the file; a secret is where it comes from ([env:NAME],
// [file:PATH]) or [redacted], and a value that Inspect found and that was refused is [refused].
type Value struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`           // "default", "/path/config.yaml:12", "environment PERIGEE_LISTEN", "flag --listen"
	Unused bool   `json:"unused,omitempty"` // this version does nothing with it
}

// Values lists every setting in the order of the file. Of an upstream there are those of its kind. An
// empty list is one value, "[]".
func (l *Loaded) Values() []Value {
	return l.valuesOf(nil, reflect.ValueOf(l.Config).Elem(), "", fromDefault, false)
}

func (l *Loaded) valuesOf(list []Value, v reflect.Value, key, origin string, unused bool) []Value {
	if o, ok := l.Origins[key]; ok {
		origin = o.String()
	}
	if l.refused[key] {
		return append(list, Value{Key: key, Value: "[refused]", Origin: origin, Unused: unused})
	}
	switch {
	case isStruct(v.Type()):
		upstream, isUpstream := v.Interface().(Upstream)
		unused = unused || isUpstream && laterKind(upstream.Kind)
		for _, f := range fieldsOf(v.Type()) {
			if isUpstream && !f.belongs(upstream.Kind) {
				continue
			}
			// What a mapping leaves out has its default, wherever the mapping stands.
			list = l.valuesOf(list, v.Field(f.index), join(key, f.name), fromDefault, unused || f.unused)
		}
		return list
	case v.Kind() == reflect.Slice && v.Len() > 0:
		for i := range v.Len() {
			list = l.valuesOf(list, v.Index(i), fmt.Sprintf("%s[%d]", key, i), origin, unused)
		}
		return list
	case v.Kind() == reflect.Map && v.Len() > 0:
		m := v.Interface().(map[string]string)
		for _, name := range slices.Sorted(maps.Keys(m)) {
			list = l.valuesOf(list, reflect.ValueOf(m[name]), join(key, name), origin, unused)
		}
		return list
	}
	value := text(v)
	if shown, ok := l.shown[key]; ok {
		value = shown
	}
	return append(list, Value{Key: key, Value: value, Origin: origin, Unused: unused})
}

// text writes a value as one would in the file.
func text(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case perigee.Secret:
		return x.String()
	case Size:
		return x.String()
	case AutoSize:
		return x.String()
	case time.Duration:
		return durationText(x)
	case time.Time:
		if x.IsZero() {
			return ""
		}
		return x.Format(time.RFC3339)
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	switch v.Kind() {
	case reflect.Slice:
		return "[]"
	case reflect.Map:
		return "{}"
	}
	return fmt.Sprint(v.Interface())
}

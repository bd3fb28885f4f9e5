package config

import (
	"reflect"
	"strings"
)

// Changed names the settings in which two configurations differ, as the file has them: "limits", "strict", and for keys and
// upstreams each of them with what became of it: "keys.laptop added". Values, which may be secrets, are not named.
func Changed(before, after *Config) (names []string) {
	a, b := reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem()
	for i := range a.NumField() {
		field := a.Type().Field(i)
		if reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch field.Name {
		case "Keys":
			names = append(names, changedList(name, before.Keys, after.Keys, func(k Key) string { return k.Name })...)
		case "Upstreams":
			names = append(names, changedList(name, before.Upstreams, after.Upstreams, func(u Upstream) string { return u.Name })...)
		default:
			names = append(names, name)
		}
	}
	return names
}

// changedList compares two lists whose elements have names. The same elements in another order are "NAME reordered".
func changedList[T any](list string, before, after []T, nameOf func(T) string) (names []string) {
	old := map[string]T{}
	for _, e := range before {
		old[nameOf(e)] = e
	}
	kept := map[string]bool{}
	for _, e := range after {
		name := nameOf(e)
		was, ok := old[name]
		kept[name] = true
		switch {
		case !ok:
			names = append(names, list+"."+name+" added")
		case !reflect.DeepEqual(was, e):
			names = append(names, list+"."+name+" changed")
		}
	}
	for _, e := range before {
		if !kept[nameOf(e)] {
			names = append(names, list+"."+nameOf(e)+" removed")
		}
	}
	if len(names) == 0 {
		return []string{list + " reordered"}
	}
	return names
}

package config

import "reflect"

// Changed lists the keys with values that differ between two configurations: "limits.body",
// "strict", and for lists of mappings with names "keys.laptop added", "keys.laptop changed",
// "keys.laptop removed" or "keys reordered". It contains no values, which may be secrets.
func Changed(before, after *Config) []string {
	return appendChanges(nil, "", reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem())
}

func appendChanges(list []string, key string, before, after reflect.Value) []string {
	switch t := before.Type(); {
	case reflect.DeepEqual(before.Interface(), after.Interface()):
	case isMapping(t):
		for _, f := range fieldsOf(t) {
			list = appendChanges(list, joinKey(key, f.name), before.Field(f.index), after.Field(f.index))
		}
	case isMapping(elemOf(t)) && findField(fieldsOf(t.Elem()), "name") != nil:
		return append(list, changedItems(key, before, after)...)
	default:
		list = append(list, key)
	}
	return list
}

// changedItems compares lists of mappings with names.
func changedItems(key string, before, after reflect.Value) (list []string) {
	byName := func(items reflect.Value) (names []string, values map[string]any) {
		values = make(map[string]any)
		for i := range items.Len() {
			name := items.Index(i).FieldByName("Name").String()
			names, values[name] = append(names, name), items.Index(i).Interface()
		}
		return names, values
	}
	oldNames, old := byName(before)
	newNames, current := byName(after)
	for _, name := range newNames {
		if _, ok := old[name]; !ok {
			list = append(list, key+"."+name+" added")
		} else if !reflect.DeepEqual(old[name], current[name]) {
			list = append(list, key+"."+name+" changed")
		}
	}
	for _, name := range oldNames {
		if _, ok := current[name]; !ok {
			list = append(list, key+"."+name+" removed")
		}
	}
	if len(list) == 0 {
		return []string{key + " reordered"}
	}
	return list
}

package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// A field is a key of a mapping, as its struct field and the tags describe it. Decoding, defaults
// and validation use these descriptions; the schema, the example file and the manual are generated
// from them and from the comments of the fields.
type field struct {
	index    int
	name     string // in the file
	path     string // "Limits.FirstByte"
	typ      reflect.Type
	scalar   *scalarType       // type of the value, or of the items; nil for mappings
	preset   *string           // the default as text; nil if there is none
	presets  map[string]string // defaults of kinds for which it differs
	enum     []string
	kinds    []string // of upstreams; empty for all
	format   string   // a key of formats; empty if there is none
	optional bool     // an empty text is accepted whatever the format
	min, max string
	required bool
	usual    bool // not required, but part of examples
	example  string
	// deprecated is empty, or since which version the key is, and what replaces it: "since 0.2.0;
	// use limits.body". It stays for one minor version at least; see docs/stability.md.
	deprecated string
}

// fieldsOf lists the fields of a struct in order, and is nil for other types. The result must not
// be changed.
func fieldsOf(t reflect.Type) []*field {
	if !isMapping(t) {
		return nil
	}
	if list, ok := fieldCache.Load(t); ok {
		return list.([]*field)
	}
	var list []*field
	for i := range t.NumField() {
		list = append(list, readTags(t, i))
	}
	kept, _ := fieldCache.LoadOrStore(t, list)
	return kept.([]*field)
}

// fieldCache has the fields of structs by type. Tags are read once, because a file may have
// thousands of the same structs.
var fieldCache sync.Map

func readTags(t reflect.Type, index int) *field {
	sf := t.Field(index)
	list := func(tag string) []string {
		return strings.FieldsFunc(sf.Tag.Get(tag), func(r rune) bool { return r == ',' })
	}
	f := &field{
		index: index, name: sf.Tag.Get("yaml"), path: t.Name() + "." + sf.Name, typ: sf.Type,
		enum: list("enum"), kinds: list("kinds"), format: sf.Tag.Get("format"), min: sf.Tag.Get("min"), max: sf.Tag.Get("max"),
		required: sf.Tag.Get("required") == "true", usual: sf.Tag.Get("usual") == "true", example: sf.Tag.Get("example"),
		deprecated: sf.Tag.Get("deprecated"),
	}
	if preset, ok := sf.Tag.Lookup("default"); ok {
		f.preset = &preset
	}
	for _, preset := range list("kind_default") {
		kind, text, _ := strings.Cut(preset, "=")
		if f.presets == nil {
			f.presets = make(map[string]string)
		}
		f.presets[kind] = text
	}
	f.format, f.optional = strings.CutSuffix(f.format, "?")
	f.scalar = scalars[elemOf(f.typ)]
	f.withKinds()
	return f
}

// belongs reports whether upstreams of a kind have the field.
func (f *field) belongs(kind string) bool { return len(f.kinds) == 0 || slices.Contains(f.kinds, kind) }

// presetFor returns the default for upstreams of a kind; nil if there is none.
func (f *field) presetFor(kind string) *string {
	if preset, ok := f.presets[kind]; ok {
		return &preset
	}
	return f.preset
}

// findField returns the field with a name, or nil.
func findField(fields []*field, name string) *field {
	if i := slices.IndexFunc(fields, func(f *field) bool { return f.name == name }); i >= 0 {
		return fields[i]
	}
	return nil
}

// isMapping reports whether values of type t are mappings with known keys.
func isMapping(t reflect.Type) bool { return t.Kind() == reflect.Struct && scalars[t] == nil }

// elemOf returns the type of the items of a list or map, and t itself for other types.
func elemOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		return t.Elem()
	}
	return t
}

// A setting is a value in a configuration.
type setting struct {
	key   string // "upstreams[0].keys[1]"
	field *field // for an item of a list or map: the field of the list or map
	value reflect.Value
	item  bool   // of a list or map
	kind  string // of the upstream that has the field
}

// walkSettings visits everything in the struct that c points to in the order of the file, mappings
// and lists before their contents. Where visit returns false, the contents are skipped. Of a
// mapping with a kind, it visits the fields of that kind.
func walkSettings(c any, visit func(setting) bool) {
	walkFields(reflect.ValueOf(c).Elem(), "", visit)
}

func walkFields(v reflect.Value, key string, visit func(setting) bool) {
	kind := ""
	if f := findField(fieldsOf(v.Type()), "kind"); f != nil {
		kind = v.Field(f.index).String()
	}
	for _, f := range fieldsOf(v.Type()) {
		if f.belongs(kind) {
			walkValue(setting{key: joinKey(key, f.name), field: f, value: v.Field(f.index), kind: kind}, visit)
		}
	}
}

func walkValue(s setting, visit func(setting) bool) {
	if !visit(s) {
		return
	}
	item := s
	item.item = true
	switch {
	case isMapping(s.value.Type()):
		walkFields(s.value, s.key, visit)
	case s.value.Kind() == reflect.Slice:
		for i := range s.value.Len() {
			item.key, item.value = itemKey(s.key, i), s.value.Index(i)
			walkValue(item, visit)
		}
	case s.value.Kind() == reflect.Map:
		names := s.value.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, name := range names {
			item.key, item.value = joinKey(s.key, name.String()), s.value.MapIndex(name)
			walkValue(item, visit)
		}
	}
}

// leaves lists the single values outside lists and maps, which the environment and flags can set.
func leaves(c any) []setting {
	var list []setting
	walkSettings(c, func(s setting) bool {
		if scalars[s.value.Type()] != nil {
			list = append(list, s)
		}
		return isMapping(s.value.Type())
	})
	return list
}

// env returns the environment variable of a setting.
func (s setting) env() string {
	return "PERIGEE_" + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

// joinKey adds a name to a key.
func joinKey(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// itemKey returns the key of an item of a list.
func itemKey(key string, i int) string { return fmt.Sprintf("%s[%d]", key, i) }

// parentKey takes the last part off a key: "a.b[0]", "a.b", "a".
func parentKey(key string) string { return key[:max(0, strings.LastIndexAny(key, ".["))] }

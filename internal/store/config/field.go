package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// A field is a key of a mapping, as its struct field and the tags describe it. Decoding, defaults
// and validation use these descriptions; the schema, the example file and the manual are generated
// from them and from the comments of the fields.
type field struct {
	Index    int
	Name     string // in the file
	Path     string // "Limits.FirstByte"
	Type     reflect.Type
	Scalar   *scalarType       // type of the value, or of the items; nil for mappings
	Preset   *string           // the default as text; nil if there is none
	presets  map[string]string // defaults of kinds for which it differs
	Enum     []string
	Kinds    []string // of upstreams; empty for all
	Format   string   // a key of formats; empty if there is none
	Optional bool     // an empty text is accepted whatever the format
	Min, Max string
	Required bool
	Example  string
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

// fieldCache has the fields of structs by type. Tags are read once, because a file may have thousands
// of the same structs.
var fieldCache sync.Map

func readTags(t reflect.Type, index int) *field {
	sf := t.Field(index)
	list := func(tag string) []string {
		return strings.FieldsFunc(sf.Tag.Get(tag), func(r rune) bool { return r == ',' })
	}
	f := &field{
		Index: index, Name: sf.Tag.Get("yaml"), Path: t.Name() + "." + sf.Name, Type: sf.Type,
		Enum: list("enum"), Kinds: list("kinds"), Format: sf.Tag.Get("format"), Min: sf.Tag.Get("min"), Max: sf.Tag.Get("max"),
		Required: sf.Tag.Get("required") == "true", Example: sf.Tag.Get("example"),
	}
	if preset, ok := sf.Tag.Lookup("default"); ok {
		f.Preset = &preset
	}
	for _, preset := range list("kind_default") {
		kind, text, _ := strings.Cut(preset, "=")
		if f.presets == nil {
			f.presets = make(map[string]string)
		}
		f.presets[kind] = text
	}
	f.Format, f.Optional = strings.CutSuffix(f.Format, "?")
	f.Scalar = scalars[elemOf(f.Type)]
	return f
}

// Belongs reports whether upstreams of a kind have the field.
func (f *field) Belongs(kind string) bool { return len(f.Kinds) == 0 || slices.Contains(f.Kinds, kind) }

// PresetFor returns the default for upstreams of a kind; nil if there is none.
func (f *field) PresetFor(kind string) *string {
	if preset, ok := f.presets[kind]; ok {
		return &preset
	}
	return f.Preset
}

// findField returns the field with a name, or nil.
func findField(fields []*field, name string) *field {
	if i := slices.IndexFunc(fields, func(f *field) bool { return f.Name == name }); i >= 0 {
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
	Key   string // "upstreams[0].keys[1]"
	Field *field // for an item of a list or map: the field of the list or map
	Value reflect.Value
	Item  bool   // of a list or map
	Kind  string // of the upstream that has the field
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
		kind = v.Field(f.Index).String()
	}
	for _, f := range fieldsOf(v.Type()) {
		if f.Belongs(kind) {
			walkValue(setting{Key: joinKey(key, f.Name), Field: f, Value: v.Field(f.Index), Kind: kind}, visit)
		}
	}
}

func walkValue(s setting, visit func(setting) bool) {
	if !visit(s) {
		return
	}
	item := s
	item.Item = true
	switch {
	case isMapping(s.Value.Type()):
		walkFields(s.Value, s.Key, visit)
	case s.Value.Kind() == reflect.Slice:
		for i := range s.Value.Len() {
			item.Key, item.Value = itemKey(s.Key, i), s.Value.Index(i)
			walkValue(item, visit)
		}
	case s.Value.Kind() == reflect.Map:
		entries := s.Value.Interface().(map[string]string)
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			item.Key, item.Value = joinKey(s.Key, name), reflect.ValueOf(entries[name])
			walkValue(item, visit)
		}
	}
}

// leaves lists the single values outside lists and maps, which the environment and flags can set.
func leaves(c any) []setting {
	var list []setting
	walkSettings(c, func(s setting) bool {
		if scalars[s.Value.Type()] != nil {
			list = append(list, s)
		}
		return isMapping(s.Value.Type())
	})
	return list
}

// Env returns the environment variable of a setting.
func (s setting) Env() string {
	return "PERIGEE_" + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
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

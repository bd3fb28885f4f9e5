package config

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
)

// A field is what the tags of a struct field say.
type field struct {
	index    int
	name     string // in the file
	path     string // "Limits.FirstByte", the key of its text in the manual
	typ      reflect.Type
	initial  string // the default as text
	hasInit  bool
	enum     []string
	kinds    []string // of upstreams; nil: all
	format   string
	min, max string
	required bool
	example  string
	later    []string // of its values, those that this version has not got
	unused   bool     // this version has no use for any
}

var (
	typeSecret   = reflect.TypeFor[perigee.Secret]()
	typeTime     = reflect.TypeFor[time.Time]()
	typeDuration = reflect.TypeFor[time.Duration]()
	typeSize     = reflect.TypeFor[Size]()
	typeAutoSize = reflect.TypeFor[AutoSize]()
	typeUpstream = reflect.TypeFor[Upstream]()
)

// fieldsOf lists the fields of a struct of this package in order. The list is everybody's, and not to be changed.
func fieldsOf(t reflect.Type) []field { return allFields()[t] }

// allFields reads the tags once: a file may have thousands of the same structs.
var allFields = sync.OnceValue(func() map[reflect.Type][]field {
	all := make(map[reflect.Type][]field)
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		all[t] = readTags(t)
		for _, f := range all[t] {
			inner := f.typ
			if inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if isStruct(inner) {
				add(inner)
			}
		}
	}
	add(reflect.TypeFor[Config]())
	return all
})

func readTags(t reflect.Type) []field {
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		sf := t.Field(i)
		f := field{index: i, name: sf.Tag.Get("yaml"), path: t.Name() + "." + sf.Name, typ: sf.Type}
		f.initial, f.hasInit = sf.Tag.Lookup("default")
		f.enum = splitTag(sf.Tag.Get("enum"))
		f.kinds = splitTag(sf.Tag.Get("kinds"))
		f.format, f.example = sf.Tag.Get("format"), sf.Tag.Get("example")
		f.min, f.max = sf.Tag.Get("min"), sf.Tag.Get("max")
		f.required = sf.Tag.Get("required") == "true"
		if later := sf.Tag.Get("later"); later == "*" {
			f.unused = true
		} else {
			f.later = splitTag(later)
		}
		fields = append(fields, f)
	}
	return fields
}

func splitTag(tag string) []string {
	if tag == "" {
		return nil
	}
	return strings.Split(tag, ",")
}

// belongs says whether upstreams of a kind have the field.
func (f field) belongs(kind string) bool { return f.kinds == nil || slices.Contains(f.kinds, kind) }

// isStruct says whether values of type t are mappings with known keys.
func isStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != typeSecret && t != typeTime
}

func isScalar(t reflect.Type) bool {
	return !isStruct(t) && t.Kind() != reflect.Slice && t.Kind() != reflect.Map
}

// join adds a name to a dotted key.
func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// fieldNames lists what fields are called in the file.
func fieldNames(fields []field) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
	}
	return list
}

// A leaf is a scalar outside lists: what the environment and flags can set.
type leaf struct {
	key   string // "limits.body"
	field field
	index []int // for reflect.Value.FieldByIndex on a Config
}

func (l leaf) env() string {
	return "PERIGEE_" + strings.ToUpper(strings.ReplaceAll(l.key, ".", "_"))
}

func leaves() []leaf { return leavesOf(reflect.TypeFor[Config](), "", nil) }

func leavesOf(t reflect.Type, key string, index []int) []leaf {
	var list []leaf
	for _, f := range fieldsOf(t) {
		key, index := join(key, f.name), append(slices.Clone(index), f.index)
		switch {
		case isStruct(f.typ):
			list = append(list, leavesOf(f.typ, key, index)...)
		case isScalar(f.typ):
			list = append(list, leaf{key: key, field: f, index: index})
		}
	}
	return list
}

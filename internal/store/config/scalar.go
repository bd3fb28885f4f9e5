package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee"
)

// A scalarType is a type of single values.
type scalarType struct {
	name     string // in the manual
	expected string // in problems
	tags     string // YAML tags of values that it accepts
	parse    func(text string) (value any, ok bool)
}

// textTags are the YAML tags of text, which accepts numbers in their original spelling: a model may
// be called 4.
const textTags = "!!str !!int !!float !!timestamp"

// scalars are all types of single values.
var scalars = map[reflect.Type]*scalarType{
	reflect.TypeFor[string](): {"string", "text", textTags,
		func(text string) (any, bool) { return text, true }},
	reflect.TypeFor[perigee.Secret](): {"secret", "text", textTags,
		func(text string) (any, bool) { return perigee.NewSecret(text), true }},
	reflect.TypeFor[bool](): {"boolean", "true or false", "!!bool",
		func(text string) (any, bool) {
			text = strings.ToLower(text)
			return text == "true" || text == "1", slices.Contains([]string{"true", "1", "false", "0"}, text)
		}},
	reflect.TypeFor[*bool](): {"boolean", "true or false", "!!bool",
		func(text string) (any, bool) {
			text = strings.ToLower(text)
			return new(text == "true" || text == "1"), slices.Contains([]string{"true", "1", "false", "0"}, text)
		}},
	reflect.TypeFor[Comparison](): {"comparison", `a comparison such as ">200000", with >, >=, < or <=`, "!!str",
		func(text string) (any, bool) { return parseComparison(text) }},
	reflect.TypeFor[int](): {"integer", "a whole number", "!!int",
		func(text string) (any, bool) {
			n, err := strconv.ParseInt(text, 0, strconv.IntSize)
			return int(n), err == nil
		}},
	reflect.TypeFor[int64](): {"integer", "a whole number", "!!int",
		func(text string) (any, bool) { n, err := strconv.ParseInt(text, 0, 64); return n, err == nil }},
	reflect.TypeFor[float64](): {"number", "a number", "!!int !!float",
		func(text string) (any, bool) {
			n, err := strconv.ParseFloat(text, 64)
			return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
		}},
	reflect.TypeFor[time.Time](): {"timestamp", "a time such as 2027-01-31T00:00:00Z (RFC 3339)", "!!str !!timestamp",
		func(text string) (any, bool) { t, err := time.Parse(time.RFC3339, text); return t, err == nil }},
	reflect.TypeFor[time.Duration](): {"duration", "a duration such as 30s, 5m, 1h30m or 90d", "!!str !!int",
		func(text string) (any, bool) { d, ok := parseDuration(text); return d, ok && d >= 0 }},
	reflect.TypeFor[Size](): {"size", "a size such as 64MiB, 10MB or a number of bytes", "!!str !!int",
		func(text string) (any, bool) { size, err := ParseSize(text); return size, err == nil }},
	reflect.TypeFor[JSON](): {"value", "a value", "",
		func(text string) (any, bool) { return JSON(text), json.Valid([]byte(text)) }},
	reflect.TypeFor[AutoSize](): {"size or `auto`", "auto, or a size such as 512MiB, 4GB or a number of bytes", "!!str !!int",
		func(text string) (any, bool) {
			size, err := ParseSize(text)
			auto := strings.TrimSpace(text) == AutoSize(0).String()
			return AutoSize(size), auto || err == nil && size > 0
		}},
}

// expectedKind describes values of type t to users.
func expectedKind(t reflect.Type) string {
	switch {
	case scalars[t] != nil:
		return scalars[t].expected
	case t.Kind() == reflect.Slice:
		return "a list"
	}
	return "a mapping of keys to values"
}

// parse reads a text as a value of the field. The error does not contain the text, which may be a
// secret.
func (f *field) parse(text string) (reflect.Value, error) {
	parsed, ok := f.scalar.parse(text)
	v := reflect.ValueOf(parsed)
	switch {
	case !ok:
		return v, errors.New("expected " + f.scalar.expected)
	case !f.inBounds(v) && f.max == "":
		return v, fmt.Errorf("expected at least %s", f.min)
	case !f.inBounds(v):
		return v, fmt.Errorf("expected a number from %s to %s", f.min, f.max)
	case len(f.enum) > 0 && !slices.Contains(f.enum, text):
		return v, errors.New("expected one of " + strings.Join(f.enum, ", "))
	}
	if check := formats[f.format]; check != nil && (text != "" || !f.optional) {
		if message := check(text); message != "" {
			return v, errors.New(message)
		}
	}
	return v, nil
}

// inBounds compares a value with min and max, which are written as the value would be.
func (f *field) inBounds(v reflect.Value) bool {
	if v.Interface() == AutoSize(0) {
		return true
	}
	return (f.min == "" || number(v) >= f.bound(f.min)) && (f.max == "" || number(v) <= f.bound(f.max))
}

func (f *field) bound(text string) float64 {
	parsed, ok := f.scalar.parse(text)
	if !ok {
		panic("config: bound " + text + " of " + f.path)
	}
	return number(reflect.ValueOf(parsed))
}

func number(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

// textOf writes a value as in the file.
func textOf(v any) string {
	switch x := v.(type) {
	case time.Duration:
		return formatDuration(x)
	case time.Time:
		if x.IsZero() {
			return ""
		}
		return x.Format(time.RFC3339)
	case *bool:
		if x == nil {
			return ""
		}
		return strconv.FormatBool(*x)
	}
	if reflect.TypeOf(v).Kind() == reflect.Map {
		return "{}" // walkSettings visits the entries of other maps
	}
	return fmt.Sprint(v) // an empty list is []
}

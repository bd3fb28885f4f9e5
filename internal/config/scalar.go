package config

import (
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

// expected says in a user's words what a value of type t looks like.
func expected(t reflect.Type) string {
	switch {
	case t == typeSecret, t.Kind() == reflect.String:
		return "text"
	case t == typeTime:
		return "a time such as 2027-01-31T00:00:00Z (RFC 3339)"
	case t == typeDuration:
		return "a duration such as 30s, 5m, 1h30m or 90d"
	case t == typeSize:
		return "a size such as 64MiB, 10MB or a number of bytes"
	case t == typeAutoSize:
		return "auto, or a size such as 512MiB, 4GB or a number of bytes"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Map || t.Kind() == reflect.Struct:
		return "a mapping of keys to values"
	}
	return "a whole number"
}

// setScalar reads text into v as f asks. The error says what was expected; who calls it adds the key and,
// unless it is a secret, the text.
func setScalar(v reflect.Value, text string, f field) error {
	if err := parseScalar(v, text); err != nil {
		return err
	}
	if err := checkBounds(v, f); err != nil {
		return err
	}
	if v.Kind() != reflect.String && v.Type() != typeSecret {
		return nil
	}
	if len(f.enum) > 0 && !slices.Contains(f.enum, text) {
		return errors.New("expected one of " + strings.Join(f.choices(), ", "))
	}
	return checkFormat(f.format, text)
}

// hintFor guesses what somebody meant with a text that setScalar refused.
func hintFor(t reflect.Type, text string, f field) string {
	if near := nearest(text, f.enum); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if f.path == kindField().path {
		return "there is no upstream for other providers; " + upstreamHint
	}
	if _, err := strconv.ParseUint(text, 10, 32); err == nil && t == typeDuration {
		unit := strings.TrimLeft(f.initial, "0123456789") // of the default
		return "did you mean " + text + unit + "?"
	}
	return ""
}

// quote repeats a text in a message, shortened, and without what may be a password or a key.
func quote(text string, f field) string {
	if f.format == "url" && strings.ContainsAny(text, "@?") {
		return "one that is not shown here"
	}
	if r := []rune(text); len(r) > 60 {
		text = string(r[:60]) + "…"
	}
	return strconv.Quote(text)
}

func parseScalar(v reflect.Value, text string) error {
	wrong := errors.New("expected " + expected(v.Type()))
	switch v.Type() {
	case typeSecret:
		v.Set(reflect.ValueOf(perigee.NewSecret(text)))
		return nil
	case typeTime:
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return wrong
		}
		v.Set(reflect.ValueOf(t))
		return nil
	case typeDuration:
		d, err := parseDuration(text)
		if err != nil || d < 0 {
			return wrong
		}
		v.SetInt(int64(d))
		return nil
	case typeSize:
		s, err := ParseSize(text)
		if err != nil {
			return err
		}
		v.SetInt(int64(s))
		return nil
	case typeAutoSize:
		s, err := parseAutoSize(text)
		if err != nil {
			return err
		}
		v.SetInt(int64(s))
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, ok := map[string]bool{"true": true, "1": true, "false": false, "0": false}[strings.ToLower(text)]
		if !ok {
			return wrong
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 0, v.Type().Bits())
		if err != nil {
			return wrong
		}
		v.SetInt(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return wrong
		}
		v.SetFloat(n)
	default:
		panic("config: no way to read a " + v.Type().String())
	}
	return nil
}

// checkBounds compares v with the min and max of its field, which are written as the value would be.
func checkBounds(v reflect.Value, f field) error {
	if v.Type() == typeAutoSize && v.Int() == 0 {
		return nil // auto
	}
	below := f.min != "" && less(v, bound(v.Type(), f.min))
	above := f.max != "" && less(bound(v.Type(), f.max), v)
	switch {
	case !below && !above:
		return nil
	case f.max == "":
		return fmt.Errorf("expected at least %s", f.min)
	}
	return fmt.Errorf("expected a number from %s to %s", f.min, f.max)
}

func bound(t reflect.Type, text string) reflect.Value {
	v := reflect.New(t).Elem()
	if err := parseScalar(v, text); err != nil {
		panic("config: bound " + text + ": " + err.Error())
	}
	return v
}

func less(a, b reflect.Value) bool {
	if a.CanInt() {
		return a.Int() < b.Int()
	}
	return a.Float() < b.Float()
}

package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// object is a JSON object of a request. Numbers are of type json.Number.
type object = map[string]any

// decode reads a body, which must be one JSON object.
func decode(body []byte) (object, *Error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var root any
	err := decoder.Decode(&root)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("text after the object")
		}
	}
	if err != nil {
		return nil, &Error{Status: 400, Type: invalidRequest, Rule: "body.json",
			Message: "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)"}
	}
	if members, ok := root.(object); ok {
		return members, nil
	}
	return nil, invalidType("", "an object", root)
}

// member is a name and a value; members keep their order in an answer.
type member struct {
	key   string
	value any
}

type members []member

func (m members) MarshalJSON() ([]byte, error) { return appendValue(nil, m), nil }

// put adds a member at the end.
func (m *members) put(key string, value any) { *m = append(*m, member{key, value}) }

// Encode is json.Marshal without HTML escaping.
func Encode(v any) []byte { return appendValue(nil, v) }

// appendValue encodes a value. It writes the types that answers consist of itself: with
// json.Marshal alone, each level of an answer would be encoded and checked once more, at four times
// the cost.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case json.RawMessage:
		return append(b, v...)
	case members:
		b = append(b, '{')
		for i, each := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, each.key), ':')
			b = appendValue(b, each.value)
		}
		return append(b, '}')
	case []any:
		return appendList(b, v)
	case []members:
		return appendList(b, v)
	case string:
		return appendText(b, v)
	}
	return appendOther(b, v)
}

func appendList[T any](b []byte, list []T) []byte {
	b = append(b, '[')
	for i, each := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendValue(b, each)
	}
	return append(b, ']')
}

// appendText encodes a string. Most need no escapes.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return appendOther(b, text)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

func appendOther(b []byte, v any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic("openai: " + err.Error()) // only values of this package and decoded JSON come here
	}
	return append(b, bytes.TrimRight(buffer.Bytes(), "\n")...)
}

// checker reads the members of a request and keeps the first objection.
type checker struct {
	profile *Profile
	err     *Error
}

func (c *checker) fail(e *Error) {
	if c.err == nil {
		c.err = e
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func at(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// known refuses members that the API does not have, if the server does.
func (c *checker) known(o object, path string, names ...string) {
	if !c.profile.Strict {
		return
	}
	var unknown []string
	for name := range o {
		if !slices.Contains(names, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return
	}
	slices.Sort(unknown)
	name := join(path, unknown[0])
	c.fail(&Error{Status: 400, Type: invalidRequest, Param: name, Code: "unknown_parameter", Rule: "unknown_parameter",
		Message: fmt.Sprintf("Unknown parameter: '%s'.", name)})
}

// text returns a string member, "" if it is absent or null.
func (c *checker) text(o object, path, key string) string {
	switch v := o[key].(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		c.fail(invalidType(join(path, key), "a string", v))
		return ""
	}
}

// required returns a string member that must not be absent.
func (c *checker) required(o object, path, key string) string {
	if o[key] == nil {
		c.fail(missing(join(path, key)))
		return ""
	}
	return c.text(o, path, key)
}

// oneOf returns a string member that must have one of the values; absent is "".
func (c *checker) oneOf(o object, path, key string, values ...string) string {
	v := c.text(o, path, key)
	if v != "" && !slices.Contains(values, v) {
		c.fail(invalidValue(join(path, key), v, values...))
	}
	return v
}

func (c *checker) boolean(o object, path, key string) (value, given bool) {
	switch v := o[key].(type) {
	case nil:
		return false, false
	case bool:
		return v, true
	default:
		c.fail(invalidType(join(path, key), "a boolean", v))
		return false, false
	}
}

// decimal returns a number between two limits, or nil if it is absent.
func (c *checker) decimal(o object, path, key string, low, high float64) *float64 {
	return c.number(o[key], join(path, key), "decimal", low, high)
}

// integer returns a whole number between two limits, or nil if it is absent.
func (c *checker) integer(o object, path, key string, low, high float64) *int64 {
	v := c.number(o[key], join(path, key), "integer", low, high)
	if v == nil {
		return nil
	}
	return new(int64(*v))
}

func (c *checker) number(value any, path, kind string, low, high float64) *float64 {
	if value == nil {
		return nil
	}
	given, ok := value.(json.Number)
	v, err := given.Float64()
	article := "a decimal"
	if kind == "integer" {
		article = "an integer"
	}
	switch {
	case !ok || err != nil || kind == "integer" && v != math.Trunc(v):
		c.fail(invalidType(path, article, value))
		return nil
	case v < low:
		c.fail(badValue(path, kind+"_below_min_value", "%s below minimum value. Expected a value >= %v, but got %s instead.", kind, low, given))
	case v > high:
		c.fail(badValue(path, kind+"_above_max_value", "%s above maximum value. Expected a value <= %v, but got %s instead.", kind, high, given))
	}
	return &v
}

// array returns an array member, nil if it is absent.
func (c *checker) array(o object, path, key string) []any {
	switch v := o[key].(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		c.fail(invalidType(join(path, key), "an array", v))
		return nil
	}
}

// atMost refuses an array that is too long.
func (c *checker) atMost(list []any, path string, limit int) {
	if len(list) > limit {
		c.fail(badValue(path, "array_above_max_length",
			"array too long. Expected an array with maximum length %d, but got an array with length %d instead.", limit, len(list)))
	}
}

// inner returns an object member, nil if it is absent.
func (c *checker) inner(o object, path, key string) object {
	if o[key] == nil {
		return nil
	}
	return c.object(o[key], join(path, key))
}

func (c *checker) object(v any, path string) object {
	o, ok := v.(object)
	if !ok {
		c.fail(invalidType(path, "an object", v))
	}
	return o
}

// stringMap checks metadata and the like.
func (c *checker) stringMap(o object, path, key string) {
	inner := c.inner(o, path, key)
	for name, v := range inner {
		if _, ok := v.(string); !ok {
			c.fail(invalidType(join(join(path, key), name), "a string", v))
		}
	}
	if len(inner) > 16 {
		c.fail(badValue(join(path, key), "object_above_max_properties", "too many properties. Expected an object with at most 16 properties, but got an object with %d properties instead.", len(inner)))
	}
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "a decimal"
		}
		return "an integer"
	case []any:
		return "an array"
	}
	return "an object"
}

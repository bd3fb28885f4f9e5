package lsclient

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"perigee/internal/lib/rawjson"
)

// decode reads the JSON form of a message. Versions of the language server differ, so it is strict
// only about the syntax, and about answers that are not objects: members that the message lacks
// and values that do not fit their field are skipped, and the remaining ones are used. Where
// protojson accepts a text, the result is the same, except for names of enums that it would drop
// (see enumNumber).
func decode(data []byte, into proto.Message) error { return decodeParts(data, into, maxParts) }

// decodeParts is decode with a limit.
func decodeParts(data []byte, into proto.Message, limit int) error {
	c := &decoder{Cursor: rawjson.NewCursor(data), left: limit}
	if !json.Valid(data) || c.Kind() != rawjson.Object {
		return errors.New("the answer is not JSON of a message")
	}
	readMessage(c, into.ProtoReflect())
	if c.left < 0 {
		return fmt.Errorf("the answer has more than %d parts", limit)
	}
	return nil
}

// maxParts bounds the messages and the elements of lists in one answer: an empty one has 3 bytes of
// JSON, and takes 100 times as much memory.
const maxParts = 1 << 20

// A decoder reads one text.
type decoder struct {
	*rawjson.Cursor
	left int // remaining of maxParts; negative if there were too many, and further ones are skipped
}

// take counts a part, and reports whether it may be kept.
func (d *decoder) take() bool {
	d.left--
	return d.left >= 0
}

func readMessage(c *decoder, m protoreflect.Message) {
	if c.Kind() != rawjson.Object {
		c.Skip()
		return
	}
	fields := m.Descriptor().Fields()
	for key := range c.Object() {
		field := fields.ByJSONName(string(key))
		if field == nil {
			field = fields.ByTextName(string(key))
		}
		if field == nil || c.Kind() == rawjson.Null {
			continue
		}
		switch {
		case field.IsMap():
			readMap(c, m, field)
		case field.IsList():
			readList(c, m, field)
		default:
			if value, ok := readValue(c, field, func() protoreflect.Value { return m.NewField(field) }); ok {
				m.Set(field, value)
			}
		}
	}
}

// readList reads the elements that fit. A message that does not fit becomes an empty one, because
// positions count where two lists belong together.
func readList(c *decoder, m protoreflect.Message, field protoreflect.FieldDescriptor) {
	if c.Kind() != rawjson.Array {
		return
	}
	list := m.NewField(field).List()
	for range c.Array() {
		if !c.take() {
			c.Skip()
			continue
		}
		value, ok := readValue(c, field, list.NewElement)
		if !ok && field.Message() != nil {
			value, ok = list.NewElement(), true
		}
		if ok {
			list.Append(value)
		}
	}
	if list.Len() > 0 {
		m.Set(field, protoreflect.ValueOfList(list))
	}
}

func readMap(c *decoder, m protoreflect.Message, field protoreflect.FieldDescriptor) {
	if c.Kind() != rawjson.Object {
		return
	}
	entries := m.NewField(field).Map()
	for key := range c.Object() {
		name, ok := parseScalar(rawjson.String, validText(string(key)), field.MapKey())
		if !ok || !c.take() {
			continue
		}
		if value, ok := readValue(c, field.MapValue(), entries.NewValue); ok {
			entries.Set(name.MapKey(), value)
		}
	}
	if entries.Len() > 0 {
		m.Set(field, protoreflect.ValueOfMap(entries))
	}
}

// readValue reads the next value for a field, and reports whether it fits. create makes an empty
// message.
func readValue(c *decoder, field protoreflect.FieldDescriptor, create func() protoreflect.Value) (protoreflect.Value, bool) {
	kind := c.Kind()
	if message := field.Message(); message != nil {
		switch {
		case kind == rawjson.Object && c.take():
			value := create()
			readMessage(c, value.Message())
			return value, true
		case kind == rawjson.String && message.FullName() == "google.protobuf.Timestamp":
			t, err := time.Parse(time.RFC3339Nano, c.String())
			return ofSeconds(create(), t.Unix(), int64(t.Nanosecond())), err == nil
		case kind == rawjson.String && message.FullName() == "google.protobuf.Duration":
			return parseDuration(create(), c.String())
		}
		return protoreflect.Value{}, false
	}
	switch kind {
	case rawjson.String:
		return parseScalar(kind, validText(c.String()), field)
	case rawjson.Bool, rawjson.Number:
		return parseScalar(kind, string(c.Raw()), field)
	}
	return protoreflect.Value{}, false
}

// validText replaces invalid UTF-8, which messages cannot hold.
func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// ofSeconds fills a Timestamp or a Duration.
func ofSeconds(value protoreflect.Value, seconds, nanos int64) protoreflect.Value {
	m := value.Message()
	fields := m.Descriptor().Fields()
	if seconds != 0 {
		m.Set(fields.ByName("seconds"), protoreflect.ValueOfInt64(seconds))
	}
	if nanos != 0 {
		m.Set(fields.ByName("nanos"), protoreflect.ValueOfInt32(int32(nanos)))
	}
	return value
}

// parseDuration reads seconds with a fraction, such as "1.5s", without the rounding and the range
// of time.ParseDuration.
func parseDuration(value protoreflect.Value, text string) (protoreflect.Value, bool) {
	text, ok := strings.CutSuffix(text, "s")
	whole, fraction, _ := strings.Cut(text, ".")
	if !ok || len(fraction) > 9 {
		return value, false
	}
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return value, false
	}
	nanos, err := strconv.ParseUint(fraction+"000000000"[len(fraction):], 10, 32)
	if err != nil {
		return value, false
	}
	if strings.HasPrefix(whole, "-") {
		return ofSeconds(value, seconds, -int64(nanos)), true
	}
	return ofSeconds(value, seconds, int64(nanos)), true
}

// parseScalar converts a number, a boolean or the content of a string to a value of a field.
func parseScalar(kind rawjson.Kind, text string, field protoreflect.FieldDescriptor) (protoreflect.Value, bool) {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), true
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(text == "true"), text == "true" || text == "false"
	case protoreflect.BytesKind:
		data, ok := parseBase64(text)
		return protoreflect.ValueOfBytes(data), ok && kind == rawjson.String
	case protoreflect.EnumKind:
		n, ok := enumNumber(text, field.Enum().Values())
		return protoreflect.ValueOfEnum(n), ok
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		n, ok := parseInteger(text)
		return protoreflect.ValueOfInt32(int32(n)), ok && n >= math.MinInt32 && n <= math.MaxInt32
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		n, ok := parseInteger(text)
		return protoreflect.ValueOfInt64(n), ok
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		n, ok := parseInteger(text)
		return protoreflect.ValueOfUint32(uint32(n)), ok && n >= 0 && n <= math.MaxUint32
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return protoreflect.ValueOfUint64(n), true
		}
		n, ok := parseInteger(text)
		return protoreflect.ValueOfUint64(uint64(n)), ok && n >= 0
	case protoreflect.FloatKind:
		f, err := strconv.ParseFloat(text, 32)
		return protoreflect.ValueOfFloat32(float32(f)), err == nil
	case protoreflect.DoubleKind:
		f, err := strconv.ParseFloat(text, 64)
		return protoreflect.ValueOfFloat64(f), err == nil
	}
	return protoreflect.Value{}, false
}

// parseInteger also reads 2.0 and 2e3.
func parseInteger(text string) (int64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<63
}

// parseBase64 reads both alphabets, with padding and without.
func parseBase64(text string) ([]byte, bool) {
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.RawURLEncoding
	}
	data, err := encoding.DecodeString(strings.TrimRight(text, "="))
	return data, err == nil
}

// namedEnums maps enum names with unpublished numbers to a value that means the same to this
// program.
var namedEnums = map[string]protoreflect.Name{
	"CORTEX_STEP_STATUS_HALTED": "CORTEX_STEP_STATUS_INTERRUPTED", // also a step that has ended
}

// enumNumber returns the number of a value that is given by its name or its number. Models appear
// and disappear with every version; names such as MODEL_PLACEHOLDER_M7 have the number 1007. Other
// unknown names are skipped.
func enumNumber(text string, values protoreflect.EnumValueDescriptors) (protoreflect.EnumNumber, bool) {
	if value := values.ByName(protoreflect.Name(text)); value != nil {
		return value.Number(), true
	}
	if value := values.ByName(namedEnums[text]); value != nil {
		return value.Number(), true
	}
	offset := int64(0)
	if number, ok := strings.CutPrefix(text, "MODEL_PLACEHOLDER_M"); ok && values.ByName("MODEL_UNSPECIFIED") != nil {
		text, offset = number, 1000
	}
	n, ok := parseInteger(text)
	return protoreflect.EnumNumber(n + offset), ok && n >= math.MinInt32 && n <= math.MaxInt32-offset
}

package rules

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// typeName returns the front end's name for a field's type in its objections.
func (w *walker) typeName(f *field) string {
	pkg := "google.ai.generativelanguage.v1beta."
	switch w.vocabulary.in.Surface {
	case V1Internal:
		pkg = "google.internal.cloud.code.v1internal."
	case Vertex:
		pkg = "google.cloud.aiplatform.v1."
	}
	switch f.kind {
	case "message", "enum":
		return "type.googleapis.com/" + pkg + strings.TrimPrefix(f.of, "Response")
	case "struct":
		return "type.googleapis.com/google.protobuf.Struct"
	}
	return "TYPE_" + strings.ToUpper(f.kind)
}

// scalarFits reports whether a JSON value, neither object nor bytes nor enum, can be read as a
// scalar.
func scalarFits(kind string, raw []byte) bool {
	switch kind {
	case "string":
		return raw[0] == '"'
	case "bool":
		return raw[0] == 't' || raw[0] == 'f'
	case "int32":
		n, ok := integer(raw)
		return ok && n >= math.MinInt32 && n <= math.MaxInt32
	case "int64":
		_, ok := integer(raw)
		return ok
	}
	_, ok := number(raw)
	return ok
}

// integer reads a whole number; the wire form allows strings and 8192.0 too.
func integer(raw []byte) (int64, bool) {
	text := digits(raw)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, ok := number(raw)
	if !ok || f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
		return 0, false
	}
	return int64(f), true
}

func number(raw []byte) (float64, bool) {
	text := digits(raw)
	if strings.ContainsAny(text, "_xXpP") || strings.EqualFold(text, "inf") {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

func digits(raw []byte) string {
	if len(raw) > 0 && raw[0] == '"' {
		return unquote(raw)
	}
	return string(raw)
}

func enumHas(enum string, raw []byte) bool {
	if raw[0] != '"' {
		_, ok := integer(raw)
		return ok
	}
	return slices.Contains(strings.Fields(enums[enum]), strings.ToUpper(unquote(raw)))
}

// isBase64 accepts both alphabets, padded or not.
func isBase64(text string) bool {
	text = strings.TrimRight(text, "=")
	for i := range len(text) {
		c := text[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '+' && c != '/' && c != '-' && c != '_' {
			return false
		}
	}
	return len(text)%4 != 1
}

// show repeats a refused value, without repeating a whole conversation.
func show(raw []byte) string { return clip(string(raw[:min(len(raw), 200)])) }

func clip(text string) string {
	if len(text) <= 100 {
		return text
	}
	return strings.ToValidUTF8(text[:100], "") + "..."
}

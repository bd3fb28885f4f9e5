package anthropic

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// walk compares a body with the declared members. The first objection ends it.
type walk struct {
	betas   []string
	refusal *Refusal
}

func (w *walk) object(rule, path, format string, args ...any) {
	if w.refusal == nil {
		w.refusal = invalid(rule, "%s: %s", path, fmt.Sprintf(format, args...))
	}
}

// shape checks one value. path is empty for the body.
type shape func(w *walk, path string, n node)

// member is a declared member of an object.
type member struct {
	name     string
	shape    shape
	required bool
	nullable bool
	beta     string // prefix of the beta without which the member is not declared; several with |
}

func need(name string, s shape) member { return member{name: name, shape: s, required: true} }
func may(name string, s shape) member  { return member{name: name, shape: s, nullable: true} }
func beta(name, prefix string, s shape) member {
	return member{name: name, shape: s, nullable: true, beta: prefix}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// record is an object with exactly the declared members.
func record(members ...member) shape { return recordOf(members) }

func recordOf(members []member) shape {
	return func(w *walk, path string, n node) {
		if n.kind() != '{' {
			w.object("schema.type", path, "Input should be a valid dictionary")
			return
		}
		for _, m := range members {
			value := n.get(m.name)
			switch {
			case m.beta != "" && !w.allowed(m.beta):
				if value.kind() != 0 {
					w.object("schema.beta", join(path, m.name), "Extra inputs are not permitted")
				}
			case value.kind() == 0 && m.required:
				w.object("schema.required", join(path, m.name), "Field required")
			case value.kind() != 0 && (value.given() || !m.nullable):
				m.shape(w, join(path, m.name), value)
			}
		}
		for _, key := range n.keys {
			if !slices.ContainsFunc(members, func(m member) bool { return m.name == key }) {
				w.object("schema.extra", join(path, key), "Extra inputs are not permitted")
			}
		}
	}
}

func (w *walk) allowed(prefixes string) bool {
	return slices.ContainsFunc(strings.Split(prefixes, "|"), func(p string) bool { return hasBeta(w.betas, p) })
}

// list has items of one shape.
func list(item shape) shape {
	return func(w *walk, path string, n node) {
		if n.kind() != '[' {
			w.object("schema.type", path, "Input should be a valid list")
			return
		}
		for i, kid := range n.kids {
			if w.refusal != nil {
				return
			}
			item(w, path+"."+itoa(i), kid)
		}
	}
}

// variant is one form of a value that is tagged by its member type.
type variant struct {
	tag   string
	shape shape
	beta  string // prefix of the beta without which the variant is not declared; several with |
}

// form is a variant: a record whose first member is its tag.
func form(tag string, members ...member) variant {
	return variant{tag: tag, shape: recordOf(append([]member{need("type", anything)}, members...))}
}

func (v variant) with(beta string) variant { v.beta = beta; return v }

// tagged is one of several forms. Its tag is a part of the paths of its members.
func tagged(variants ...variant) shape {
	return func(w *walk, path string, n node) {
		if n.kind() != '{' {
			w.object("schema.type", path, "Input should be a valid dictionary")
			return
		}
		tag := n.get("type")
		if tag.kind() == 0 {
			w.object("schema.required", path+".type", "Field required")
			return
		}
		var tags []string
		for _, v := range variants {
			if v.beta != "" && !w.allowed(v.beta) {
				continue
			}
			if v.tag == tag.text() {
				v.shape(w, join(path, v.tag), n)
				return
			}
			tags = append(tags, "'"+v.tag+"'")
		}
		w.object("schema.tag", path, "Input tag '%s' found using 'type' does not match any of the expected tags: %s", tag.text(), strings.Join(tags, ", "))
	}
}

// textOr is a string, or a list of the given shape.
func textOr(item shape) shape {
	return func(w *walk, path string, n node) {
		if n.kind() != '"' && n.kind() != '[' {
			w.object("schema.type", path, "Input should be a valid list")
			return
		}
		if n.kind() == '[' {
			list(item)(w, path, n)
		}
	}
}

func anything(*walk, string, node) {}

func dictionary(w *walk, path string, n node) {
	if n.kind() != '{' {
		w.object("schema.type", path, "Input should be a valid dictionary")
	}
}

func str(w *walk, path string, n node) {
	if n.kind() != '"' {
		w.object("schema.type", path, "Input should be a valid string")
	}
}

func boolean(w *walk, path string, n node) {
	if n.kind() != 't' && n.kind() != 'f' {
		w.object("schema.type", path, "Input should be a valid boolean")
	}
}

// upTo is a string of at most so many characters.
func upTo(limit int) shape {
	return func(w *walk, path string, n node) {
		if str(w, path, n); len([]rune(n.text())) > limit {
			w.object("schema.length", path, "String should have at most %d characters", limit)
		}
	}
}

// word is a string of letters, digits, _ and -.
func word(limit int, pattern string) shape {
	return func(w *walk, path string, n node) {
		str(w, path, n)
		text := n.text()
		strange := func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
		}
		if text == "" || len(text) > limit || strings.ContainsFunc(text, strange) {
			w.object("schema.pattern", path, "String should match pattern '%s'", pattern)
		}
	}
}

// oneOf is a string out of a list.
func oneOf(values ...string) shape {
	return func(w *walk, path string, n node) {
		if slices.Contains(values, n.text()) && n.kind() == '"' {
			return
		}
		quoted := make([]string, len(values))
		for i, v := range values {
			quoted[i] = "'" + v + "'"
		}
		last := len(quoted) - 1
		text := quoted[last]
		if last > 0 {
			text = strings.Join(quoted[:last], ", ") + " or " + text
		}
		w.object("schema.literal", path, "Input should be %s", text)
	}
}

// whole is an integer of at least low.
func whole(low int) shape {
	return func(w *walk, path string, n node) {
		if k := n.kind(); k != '-' && (k < '0' || k > '9') || n.number() != math.Trunc(n.number()) {
			w.object("schema.type", path, "Input should be a valid integer")
			return
		}
		if n.number() < float64(low) {
			w.object("schema.range", path, "Input should be greater than or equal to %d", low)
		}
	}
}

// between is a number of a range, the limits included.
func between(low, high float64) shape {
	return func(w *walk, path string, n node) {
		switch k := n.kind(); {
		case k != '-' && (k < '0' || k > '9'):
			w.object("schema.type", path, "Input should be a valid number")
		case n.number() < low:
			w.object("schema.range", path, "Input should be greater than or equal to %v", low)
		case n.number() > high:
			w.object("schema.range", path, "Input should be less than or equal to %v", high)
		}
	}
}

package rules

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of the walk: the provider's own nesting limit, and how many violations are worth
// repeating.
const (
	maxDepth      = 100
	maxViolations = 100
)

// A violation is one objection of the front end, which parses JSON into fixed messages.
type violation struct {
	rule, path, text string
}

// A node is a declared value of the request. Free JSON (structs, values) stays raw.
type node struct {
	raw    []byte
	fields []member
	items  []node
	keys   []string // names of the items of a map
}

type member struct {
	field *field
	name  string // as spelled
	node  node
}

// get returns a field by its camelCase name, or nil. It may be called on nil.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for i := range n.fields {
		if n.fields[i].field.name == name {
			return &n.fields[i].node
		}
	}
	return nil
}

// list returns the items of a repeated field. It may be called on a node without the field.
func (n *node) list(name string) []node {
	if f := n.get(name); f != nil {
		return f.items
	}
	return nil
}

func (n *node) text(name string) string {
	if f := n.get(name); f != nil {
		return unquote(f.raw)
	}
	return ""
}

// A walker reads one message from a scanner and notes whatever the front end objects to. Objections
// do not stop it: the provider reports all of them at once.
type walker struct {
	scanner
	vocabulary vocabulary
	path       []string // rendered segments
	depth      int
	violations []violation
	extra      string // path of the first cache_control in a Claude conversation: the gateway lets it pass, the backend refuses it
}

// String returns the current path, for objections.
func (w *walker) String() string { return strings.Join(w.path, ".") }

// object notes an objection. Past the limit nothing is even worded: bodies of a million faults must
// stay cheap.
func (w *walker) object(rule, format string, args ...any) {
	if len(w.violations) < maxViolations {
		w.violations = append(w.violations, violation{rule, w.String(), fmt.Sprintf(format, args...)})
	}
}

// unknown objects to a name within the message at the current path.
func (w *walker) unknown(rule, name, why string) {
	if len(w.path) == 0 {
		w.object(rule, "Invalid JSON payload received. Unknown name %q: %s", clip(name), why)
		return
	}
	w.object(rule, "Invalid JSON payload received. Unknown name %q at '%s': %s", clip(name), w, why)
}

// wrong objects to the value at the current path.
func (w *walker) wrong(rule string, f *field, what string) {
	w.object(rule, "Invalid value at '%s' (%s), %s", w, w.typeName(f), what)
}

// message reads an object as the named message.
func (w *walker) message(name string) node {
	var n node
	w.peek()
	start := w.i
	fields := w.vocabulary.fields(name)
	w.enter()
	for !w.leave() {
		key := w.key()
		f := fields[key]
		if f == nil {
			w.undeclared(name, key)
			w.skip()
			continue
		}
		if w.peek() == 'n' && f.kind != "value" {
			w.skip() // null is the same as absent
			continue
		}
		w.member(&n, f, key)
	}
	n.raw = w.b[start:min(w.i, len(w.b))]
	return n
}

func (w *walker) undeclared(message, key string) {
	history := message == "Content" || message == "Part" || message == "FunctionCall" || message == "FunctionResponse"
	if history && w.vocabulary.in.Model.Family == Claude && (key == "cache_control" || key == "cacheControl") {
		if w.extra == "" {
			w.extra = w.String()
		}
		return
	}
	w.unknown("request.unknown_name", key, "Cannot find field.")
}

// member reads a declared field into n. The last of two spellings wins unless the switch forbids
// two.
func (w *walker) member(n *node, f *field, key string) {
	for i := range n.fields {
		other := &n.fields[i]
		if other.field == f {
			if other.name != key && w.vocabulary.in.Switches.RejectDuplicateSpelling {
				w.unknown("request.duplicate_spelling", key, "Proto field is already set.")
			}
			*other = member{f, key, w.value(f, key)}
			return
		}
		if other.field.data && f.data {
			w.object("request.oneof", "Invalid value at '%s' (oneof), oneof field 'data' is already set. Cannot set '%s'", w, f.name)
		}
	}
	n.fields = append(n.fields, member{f, key, w.value(f, key)})
}

// value reads the value of a field: a list, a map or a single value.
func (w *walker) value(f *field, key string) node {
	c := w.peek()
	switch {
	case f.keys && c == '{':
		return w.entries(f)
	case f.repeated && c == '[':
		return w.elements(f)
	case c == '[' && f.kind != "value":
		w.unknown("request.list_for_singular", key, "Proto field is not repeating, cannot start list.")
		return node{raw: w.skip()}
	}
	w.path = append(w.path, f.snake)
	defer func() { w.path = w.path[:len(w.path)-1] }()
	if f.keys {
		raw := w.skip()
		w.wrong("request.value", f, show(raw))
		return node{raw: raw}
	}
	single := w.single(f)
	if f.repeated { // the front end takes one value for a list of one
		return node{raw: single.raw, items: []node{single}}
	}
	return single
}

func (w *walker) elements(f *field) node {
	var n node
	start := w.i
	w.path = append(w.path, "")
	for w.enter(); !w.leave(); {
		w.path[len(w.path)-1] = f.snake + "[" + strconv.Itoa(len(n.items)) + "]"
		n.items = append(n.items, w.single(f))
	}
	w.path = w.path[:len(w.path)-1]
	n.raw = w.b[start:min(w.i, len(w.b))]
	return n
}

func (w *walker) entries(f *field) node {
	var n node
	start := w.i
	w.path = append(w.path, "")
	for w.enter(); !w.leave(); {
		w.path[len(w.path)-1] = f.snake + "[" + strconv.Itoa(len(n.items)) + "].value"
		n.keys = append(n.keys, w.key())
		n.items = append(n.items, w.single(f))
	}
	w.path = w.path[:len(w.path)-1]
	n.raw = w.b[start:min(w.i, len(w.b))]
	return n
}

// single reads one message, scalar or piece of free JSON at the current path.
func (w *walker) single(f *field) node {
	c := w.peek()
	if f.kind == "message" && c == '{' {
		if w.depth++; w.depth > maxDepth {
			w.object("request.depth", "Invalid JSON payload received. Message too deep. Max recursion depth reached for key '%s'", f.snake)
			w.depth--
			return node{raw: w.skip()}
		}
		n := w.message(f.of)
		w.depth--
		return n
	}
	n := node{raw: w.skip()}
	switch {
	case f.kind == "value", f.kind == "struct" && c == '{':
	case f.kind == "message", f.kind == "struct":
		w.wrong("request.value", f, show(n.raw))
	case c == '{':
		w.wrong("request.value", f, "Starting an object on a scalar field")
	case f.kind == "enum":
		if !enumHas(f.of, n.raw) {
			w.wrong("request.enum", f, show(n.raw))
		}
	case f.kind == "bytes":
		if c != '"' {
			w.wrong("request.value", f, show(n.raw))
		} else if text := unquote(n.raw); !isBase64(text) {
			w.wrong("request.base64", f, fmt.Sprintf("Base64 decoding failed for %q", clip(text)))
		}
	case !scalarFits(f.kind, n.raw):
		w.wrong("request.value", f, show(n.raw))
	}
	return n
}

package anthropic

import (
	"bytes"
	"encoding/json"
)

// node is one JSON value. Its bytes alias the body.
type node struct {
	raw  []byte
	keys []string // the names of the members of an object
	kids []node   // members of an object, items of a list
}

// parse reads JSON that is known to be valid.
func parse(b []byte) node {
	p := parser{b: b}
	return p.value()
}

// kind returns the first byte of the value: one of { [ " t f n - and digits; 0 if there is none.
func (n node) kind() byte {
	if len(n.raw) == 0 {
		return 0
	}
	return n.raw[0]
}

// get returns the member called name, the last if there are several, or an empty node.
func (n node) get(name string) node {
	for i := len(n.keys) - 1; i >= 0; i-- {
		if n.keys[i] == name {
			return n.kids[i]
		}
	}
	return node{}
}

// given reports whether there is a value other than null.
func (n node) given() bool { return n.kind() != 0 && n.kind() != 'n' }

// text returns the value of a string, or "".
func (n node) text() string {
	if n.kind() != '"' {
		return ""
	}
	if bytes.IndexByte(n.raw, '\\') < 0 {
		return string(n.raw[1 : len(n.raw)-1])
	}
	var s string
	_ = json.Unmarshal(n.raw, &s) // valid, as the body is
	return s
}

// number returns the value of a number, or 0.
func (n node) number() float64 {
	var f float64
	_ = json.Unmarshal(n.raw, &f) // 0 if it is no number
	return f
}

func (n node) isTrue() bool { return n.kind() == 't' }

// parser reads a body once, from the start to the end.
type parser struct {
	b []byte
	i int
}

// next returns the first byte of the next value or closing bracket.
func (p *parser) next() byte {
	for p.i < len(p.b) {
		switch c := p.b[p.i]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
			p.i++
		default:
			return c
		}
	}
	return 0
}

func (p *parser) value() node {
	c, start := p.next(), p.i
	var n node
	switch c {
	case '{', '[':
		p.i++
		for closing := p.next(); closing != '}' && closing != ']' && closing != 0; closing = p.next() {
			if c == '{' {
				n.keys = append(n.keys, p.value().text())
			}
			n.kids = append(n.kids, p.value())
		}
		p.i++
	case '"':
		p.skipString()
	default:
		for p.i < len(p.b) && bytes.IndexByte([]byte(" \t\r\n,:]}"), p.b[p.i]) < 0 {
			p.i++
		}
	}
	n.raw = p.b[start:min(p.i, len(p.b))]
	return n
}

// skipString steps over a string.
func (p *parser) skipString() {
	for p.i++; p.i < len(p.b); {
		end := bytes.IndexByte(p.b[p.i:], '"')
		if end < 0 {
			break
		}
		if escape := bytes.IndexByte(p.b[p.i:p.i+end], '\\'); escape >= 0 {
			p.i += escape + 2
			continue
		}
		p.i += end + 1
		return
	}
	p.i = len(p.b)
}

// syntax returns why a body is not JSON.
func syntax(body []byte) string {
	var any json.RawMessage
	if err := json.Unmarshal(body, &any); err != nil {
		return err.Error()
	}
	return "unexpected end of JSON input"
}

// encode is json.Marshal without HTML escaping.
func encode(v any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic("anthropic: " + err.Error()) // only our own values come here
	}
	return bytes.TrimRight(buffer.Bytes(), "\n")
}

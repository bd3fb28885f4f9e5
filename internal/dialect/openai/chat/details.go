package chat

import (
	"bytes"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// details are the reasoning_details of an answer, which a router of several vendors' models wants
// back complete and in order. In a stream a detail comes in pieces, one for each chunk.
type details []detail

// A detail is an element of the list. Its text grows with each piece, and a piece replaces all other
// members that it has.
type detail struct {
	kind, index string // JSON; the pieces of a detail have the same
	name        string // of the member that grows; empty if it has none
	text        []byte // escaped
	rest        perigee.Fields
}

// growing are the members that come in pieces.
var growing = []string{"text", "summary"}

// add reads a list of pieces, and returns by how many bytes the details have grown. Elements that are
// no objects are ignored.
func (l *details) add(c *rawjson.Cursor) (grown int64) {
	if c.Kind() != rawjson.Array {
		return 0
	}
	for range c.Array() {
		if c.Kind() == rawjson.Object {
			grown += l.piece(c)
		}
	}
	return grown
}

func (l *details) piece(c *rawjson.Cursor) (grown int64) {
	var p detail
	for key := range c.Object() {
		name, kind := string(key), c.Kind()
		switch {
		case name == "type":
			p.kind = string(c.Raw())
		case name == "index":
			p.index = string(c.Raw())
		case kind == rawjson.String && (name == growing[0] || name == growing[1]):
			p.name, p.text = name, []byte(c.Inside())
		default:
			p.rest = append(p.rest, perigee.Field{Name: name, Value: bytes.Clone(c.Raw())})
		}
	}
	n := len(*l) - 1
	if n < 0 || p.name == "" || (*l)[n].kind != p.kind || (*l)[n].index != p.index || (*l)[n].name != p.name {
		*l = append(*l, p)
		grown = partSize + int64(len(p.kind)+len(p.index)+len(p.text))
		for _, f := range p.rest {
			grown += fieldSize + int64(len(f.Name)+len(f.Value))
		}
		return grown
	}
	last := &(*l)[n]
	last.text = append(last.text, p.text...)
	grown = int64(len(p.text))
	for _, f := range p.rest {
		grown += last.set(f)
	}
	return grown
}

// fieldSize is the size of a member, without its content.
const fieldSize = 40

// set replaces a member, unless the piece has null for it, and returns the growth.
func (d *detail) set(f perigee.Field) (grown int64) {
	for i := range d.rest {
		if d.rest[i].Name == f.Name {
			if string(f.Value) != "null" {
				grown = int64(len(f.Value) - len(d.rest[i].Value))
				d.rest[i].Value = f.Value
			}
			return grown
		}
	}
	d.rest = append(d.rest, f)
	return fieldSize + int64(len(f.Name)+len(f.Value))
}

// encode returns the list as JSON, or "" if it is empty.
func (l details) encode() string {
	if len(l) == 0 {
		return ""
	}
	var w rawjson.Writer
	w.Array()
	for _, d := range l {
		w.Object()
		if d.kind != "" {
			w.Key("type").Raw([]byte(d.kind))
		}
		if d.name != "" {
			w.Key(d.name).Form(string(d.text), true)
		}
		for _, f := range d.rest {
			w.AnyKey(f.Name).Raw(f.Value)
		}
		if d.index != "" {
			w.Key("index").Raw([]byte(d.index))
		}
		w.EndObject()
	}
	return string(w.EndArray().Buf)
}

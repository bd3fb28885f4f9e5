package api

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// Members are changes of the body of each request for an answer, by the paths of members: "a.b" is
// the member b of the object a. No path is another one's beginning.
type Members struct {
	Set     map[string]json.RawMessage // replaces the client's value
	Default map[string]json.RawMessage // for requests that have no value, or null
	Drop    []string
}

// A change is a change of one member of an object. Either value, drop or inside is set.
type change struct {
	name   string
	path   string // from the top of the body
	value  json.RawMessage
	keep   bool // the client's value stays if there is one
	drop   bool
	quiet  bool // there is no note
	inside []*change
}

// changes compiles the members. If either is set, the provider takes names in snake case for the
// same members.
func (m *Members) changes(either bool) (list []*change) {
	for _, path := range slices.Sorted(maps.Keys(m.Set)) {
		add(&list, path, either, change{value: m.Set[path]})
	}
	for _, path := range slices.Sorted(maps.Keys(m.Default)) {
		add(&list, path, either, change{value: m.Default[path], keep: true})
	}
	for _, path := range m.Drop {
		add(&list, path, either, change{drop: true})
	}
	return list
}

// add adds the change of the member at a path.
func add(list *[]*change, path string, either bool, c change) {
	names := strings.Split(path, ".")
	for i, name := range names {
		if either {
			name = camelCase(name)
		}
		at := slices.IndexFunc(*list, func(c *change) bool { return c.name == name })
		if at < 0 {
			at = len(*list)
			*list = append(*list, &change{name: name, path: strings.Join(names[:i+1], ".")})
		}
		found := (*list)[at]
		if i == len(names)-1 {
			found.value, found.keep, found.drop, found.quiet = c.value, c.keep, c.drop, c.quiet
		}
		list = &found.inside
	}
}

// change makes the edits of a message and the configured changes of its body.
func (u *Upstream) change(req *perigee.Request, via *Wire, m *message) error {
	if req.Dialect == perigee.DialectOpenAIImages { // the members of conversations are unknown there
		return u.edit(req, via, m, m.edits)
	}
	return u.edit(req, via, m, merged(m.edits, u.changes[via.snakeCase]))
}

// merged returns the changes of two lists, of which the first one applies where both change the same
// member. Each member has one change.
func merged(own, configured []*change) []*change {
	list := slices.Clone(own)
	for _, c := range configured {
		i := slices.IndexFunc(list, func(o *change) bool { return o.name == c.name })
		switch {
		case i < 0:
			list = append(list, c)
		case list[i].inside == nil: // the whole member is changed already
		case c.value != nil:
			both := *c
			e := memberEditor{body: c.value}
			e.object(rawjson.NewCursor(c.value), list[i].inside)
			if both.value = rawjson.Splice(c.value, e.edits...); c.keep {
				both.inside = list[i].inside
			}
			list[i] = &both
		case c.inside != nil:
			both := *list[i]
			both.inside = merged(list[i].inside, c.inside)
			list[i] = &both
		}
	}
	return list
}

// edit makes changes of the body of a message, and adds notes about values of the client that were
// replaced or dropped. A body in one piece is not copied: the parts that stay become pieces of the
// message. The rewrites of the body are made as well.
func (u *Upstream) edit(req *perigee.Request, via *Wire, m *message, changes []*change) error {
	if len(changes) == 0 && len(m.rewrites) == 0 {
		return nil
	}
	body, joined := m.body[0], len(m.body) > 1
	if joined {
		body = slices.Concat(m.body...)
	}
	e := memberEditor{body: body, either: via.snakeCase}
	e.object(rawjson.Index(req.Index).Value(body), changes)
	if err := req.RefuseIfStrict(e.notes.List()); err != nil {
		return err
	}
	if edits := e.over(m.rewrites); len(edits) > 0 {
		if joined {
			m.release()
		}
		m.body, m.rewrites, m.notes = rawjson.Pieces(body, edits...), nil, slices.Concat(m.notes, e.notes.List())
	}
	return nil
}

// A memberEditor collects the edits of one body, in order.
type memberEditor struct {
	body   []byte
	either bool
	edits  []rawjson.Edit
	notes  perigee.Notes
}

// over returns the edits of a body together with the edits of its members, which win where both
// change the same bytes.
func (e *memberEditor) over(edits []rawjson.Edit) []rawjson.Edit {
	if len(edits) == 0 {
		return e.edits
	}
	list := make([]rawjson.Edit, 0, len(edits)+len(e.edits))
	members := e.edits
	for _, edit := range edits {
		for len(members) > 0 && members[0].End <= edit.Start {
			list, members = append(list, members[0]), members[1:]
		}
		if len(members) == 0 || edit.End <= members[0].Start {
			list = append(list, edit)
		}
	}
	return append(list, members...)
}

// object reads an object and collects the edits of its members.
func (e *memberEditor) object(c *rawjson.Cursor, changes []*change) {
	if c.Kind() != rawjson.Object {
		return
	}
	members := rawjson.Removal{Text: e.body, End: c.Offset() + 1}
	kept := false
	var seen []*change
	for key := range c.Object() {
		found := e.find(changes, key)
		start, kind := c.Offset(), c.Kind()
		if found != nil {
			seen = append(seen, found)
		}
		if found != nil && found.drop {
			c.Skip()
			e.edits = members.Drop(e.edits, c.Offset())
			if !found.quiet {
				e.notes.Dropped(found.path)
			}
			continue
		}
		members.Keep(e.edits, start)
		kept = true
		switch {
		case found == nil:
			c.Skip()
		case kind == rawjson.Object && found.inside != nil:
			e.object(c, found.inside)
		default:
			_, stop := c.Span()
			e.replace(found, start, stop, kind == rawjson.Null)
		}
		members.End = c.Offset()
	}
	var missing []byte
	for _, change := range changes {
		if slices.Contains(seen, change) {
			continue
		}
		if value := change.wanted(true); value != nil {
			if kept || missing != nil {
				missing = append(missing, ',')
			}
			missing = append(append(rawjson.AppendString(missing, change.name), ':'), value...)
		}
	}
	if missing != nil {
		e.edits = append(e.edits, rawjson.Edit{Start: members.End, End: members.End, New: missing})
	}
}

// replace replaces the value of a member, which counts as missing if it is null.
func (e *memberEditor) replace(c *change, start, end int, null bool) {
	value := c.wanted(null)
	if value != nil && c.inside != nil {
		value = c.wanted(true) // the new object has no other members
	}
	if value == nil || bytes.Equal(value, e.body[start:end]) {
		return
	}
	e.edits = append(e.edits, rawjson.Edit{Start: start, End: end, New: value})
	if !null && !c.quiet {
		e.notes.Mapped(c.path + ": as the configuration sets it")
	}
}

// wanted returns the value that a member gets, or nil if it keeps the value that it has. missing is
// true if it has none.
func (c *change) wanted(missing bool) []byte {
	if c.value != nil && (missing || !c.keep) {
		return c.value
	}
	var object []byte
	for _, inner := range c.inside {
		if value := inner.wanted(missing); value != nil {
			object = append(append(rawjson.AppendString(append(object, ','), inner.name), ':'), value...)
		}
	}
	if object == nil {
		return nil
	}
	object[0] = '{'
	return append(object, '}')
}

// find returns the change of a member, or nil if there is none.
func (e *memberEditor) find(changes []*change, key []byte) *change {
	name := string(key)
	if e.either {
		name = camelCase(name)
	}
	if i := slices.IndexFunc(changes, func(c *change) bool { return c.name == name }); i >= 0 {
		return changes[i]
	}
	return nil
}

// camelCase returns a name in snake case in lower camel case: max_tokens is maxTokens.
func camelCase(name string) string {
	first, rest, found := strings.Cut(name, "_")
	if first == "" {
		return name
	}
	for found && rest != "" {
		var part string
		part, rest, found = strings.Cut(rest, "_")
		if part != "" {
			first += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return first
}

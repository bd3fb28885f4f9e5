// Package html writes HTML. Each value is escaped as its place needs it: in a text, in an attribute, in an address.
//
// It is there instead of html/template, which finds methods by their names: with it, the linker has to keep the exported methods of
// all types, which are 3.6 MB of the binary.
package html

import (
	"fmt"
	"net/url"
	"strings"
)

// HTML is markup. Only this package makes it, from constants and from values that it has escaped.
type HTML struct{ text string }

func (h HTML) String() string { return h.text }

// Attributes are attributes of a tag, all of them constants.
type Attributes struct{ text string }

// A literal is a constant of the program: the type has no name in other packages, so these can pass nothing else.
type literal string

// F returns markup with a value for each {} in it: HTML between tags, Attributes in a tag, and anything else as text, escaped,
// between tags or in a value with double quotes. In an address (href, src, action), a text is a segment of the path, or a parameter
// behind the question mark; a whole address has to be one of this server, or becomes "#". Everything else is an error in the
// program, and F panics.
func F(markup literal, values ...any) HTML {
	var b strings.Builder
	var at place
	rest := string(markup)
	for {
		before, after, found := strings.Cut(rest, "{}")
		b.WriteString(before)
		at.pass(before)
		if found == (len(values) == 0) {
			panic("html: not one value for each {} of " + string(markup))
		}
		if !found {
			break
		}
		text, ok := at.fill(values[0])
		if !ok {
			panic(fmt.Sprintf("html: a %T cannot stand behind %s", values[0], before))
		}
		b.WriteString(text)
		rest, values = after, values[1:]
	}
	if at.in != betweenTags {
		panic("html: a tag is not complete: " + string(markup))
	}
	return HTML{b.String()}
}

// Attr returns attributes, with the space before them, if the condition is true.
func Attr(condition bool, markup literal) Attributes {
	if !condition {
		return Attributes{}
	}
	return Attributes{string(markup)}
}

// If returns F of the markup if the condition is true.
func If(condition bool, markup literal, values ...any) HTML {
	if !condition {
		return HTML{}
	}
	return F(markup, values...)
}

// With returns F of the markup with a text, if that is not empty.
func With(text string, markup literal) HTML { return If(text != "", markup, text) }

// Each returns what f makes of the members of a list.
func Each[T any](list []T, f func(T) HTML) HTML {
	var b strings.Builder
	for _, member := range list {
		b.WriteString(f(member).text)
	}
	return HTML{b.String()}
}

// Join returns several pieces of markup, one behind the other.
func Join(parts ...HTML) HTML {
	return Each(parts, func(h HTML) HTML { return h })
}

// A place is where a value stands.
type place struct {
	in        region
	attribute string // in a value: its name
	begun     bool   // something of the value stands before
	query     bool   // in an address: behind the question mark
}

type region int

const (
	betweenTags region = iota
	inTag
	inValue // of an attribute
)

// pass moves the place behind some markup.
func (p *place) pass(markup string) {
	for i := range len(markup) {
		switch c := markup[i]; {
		case p.in == betweenTags && c == '<':
			p.in = inTag
		case p.in == inTag && c == '>':
			p.in = betweenTags
		case p.in == inTag && c == '"':
			name := strings.TrimSuffix(markup[:i], "=")
			*p = place{in: inValue, attribute: name[strings.LastIndexAny(name, " \n")+1:]}
		case p.in == inValue && c == '"':
			*p = place{in: inTag}
		case p.in == inValue:
			p.begun = true
			p.query = p.query || c == '?'
		}
	}
}

// fill returns what a value is at the place; false: it must not stand there.
func (p *place) fill(value any) (string, bool) {
	var text string
	switch value := value.(type) {
	case HTML:
		return value.text, p.in == betweenTags
	case Attributes:
		return value.text, p.in == inTag
	case string:
		text = value
	default:
		text = fmt.Sprint(value)
	}
	switch {
	case p.in == inTag, strings.HasPrefix(p.attribute, "on"), p.attribute == "style":
		return "", false
	case p.attribute == "href", p.attribute == "src", p.attribute == "action":
		text = p.address(text)
	}
	p.begun = p.in == inValue
	return escaper.Replace(text), true
}

// address returns a part of an address.
func (p *place) address(text string) string {
	switch {
	case p.query:
		return url.QueryEscape(text)
	case p.begun:
		return url.PathEscape(text)
	case !strings.HasPrefix(text, "/"), strings.HasPrefix(text, "//"), strings.Contains(text, `\`):
		return "#"
	}
	return text
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "\x00", "\uFFFD")

// Package html writes HTML. Each value is escaped as its place needs it: in a text, in an
// attribute, in an address.
//
// It is there instead of html/template, which finds methods by their names: with it, the linker has
// to keep the exported methods of all types, which are 3.6 MB of the binary.
package html

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// HTML is markup. Only this package makes it, from constants and from values that it has escaped.
type HTML struct{ text string }

func (h HTML) String() string { return h.text }

// Attributes are attributes of a tag, all of them constants.
type Attributes struct{ text string }

// A literal is a constant of the program: the type has no name in other packages, so these can pass
// nothing else.
type literal string

// F returns markup with a value for each {} in it: HTML between tags, Attributes in a tag, and
// anything else as text, escaped, between tags or in a value with double quotes of an attribute in
// the list of those that take texts. In an address (href, src, action), a text is a segment of the
// path, or a parameter behind the question mark; a whole address has to be one of this server. An
// address that is not, and a segment of dots, become "#". A value in any other place is an error in
// the program, and F panics: in a script, a style sheet, a frame or a comment, in the name of a tag
// or attribute, and in other attributes.
//
// F does not check the constant parts: that tags are closed and known, and what scripts do with
// data attributes. Values that are inserted one by one are checked one by one: two segments of one
// dot without a slash between them would be one of two dots.
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

// Each returns the results of f for the members of a list.
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

// textAttributes are the attributes that take texts, in addition to addresses, aria-* and data-*:
// browsers neither run nor load them.
var textAttributes = []string{
	"class", "id", "name", "value", "title", "placeholder", "datetime", "for", "alt",
	"width", "height", "viewbox", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "points", "d", // of drawings
}

// addresses are the attributes that take addresses.
var addresses = []string{"href", "src", "action"}

// rawElements have contents that are not markup, or are a document of their own.
var rawElements = []string{"script", "style", "iframe", "noscript", "noembed", "noframes", "xmp", "plaintext", "template", "object"}

// A place is the context of a value in the markup.
type place struct {
	in        region
	name      string // in a tag, the name of the tag or attribute that has begun; in a raw element, its own name
	tag       string // that is open; empty while its name is being read
	attribute string // in a value: its name
	started   bool   // the value has begun before
	query     bool   // in an address: behind the question mark
}

type region int

const (
	betweenTags region = iota
	inTag
	inValue  // of an attribute, with double quotes
	inSingle // of one with single quotes
	inRaw    // in a raw element
	inComment
)

// pass moves the place behind some markup.
func (p *place) pass(markup string) {
	for i := 0; i < len(markup); i++ {
		c, rest := markup[i], markup[i:]
		switch p.in {
		case betweenTags:
			if strings.HasPrefix(rest, "<!--") {
				p.in = inComment
			} else if c == '<' {
				*p = place{in: inTag}
				if strings.HasPrefix(rest, "</") {
					p.tag = "/" // no element begins
				}
			}
		case inComment:
			if strings.HasPrefix(rest, "-->") {
				p.in, i = betweenTags, i+2
			}
		case inRaw:
			if end := "</" + p.name; c == '<' && len(rest) >= len(end) && strings.EqualFold(rest[:len(end)], end) {
				*p = place{in: inTag, tag: "/"}
			}
		case inTag:
			p.passTag(c)
		case inValue:
			if c == '"' {
				*p = place{in: inTag, tag: p.tag}
				continue
			}
			p.started, p.query = true, p.query || c == '?'
		case inSingle:
			if c == '\'' {
				*p = place{in: inTag, tag: p.tag}
			}
		}
	}
}

// passTag moves the place behind a character in a tag.
func (p *place) passTag(c byte) {
	space := strings.IndexByte(" \t\n\r\f/", c) >= 0
	if (space || c == '>') && p.tag == "" && p.name != "" {
		p.tag = p.name
	}
	switch {
	case c == '>' && slices.Contains(rawElements, p.tag):
		*p = place{in: inRaw, name: p.tag}
	case c == '>':
		*p = place{in: betweenTags}
	case space:
		p.name = ""
	case c == '"':
		*p = place{in: inValue, tag: p.tag, attribute: strings.TrimSuffix(p.name, "=")}
	case c == '\'':
		*p = place{in: inSingle, tag: p.tag}
	default:
		p.name += strings.ToLower(string(rune(c)))
	}
}

// fill returns the text of a value at the place, and false if the value is not allowed there.
func (p *place) fill(value any) (string, bool) {
	var text string
	switch value := value.(type) {
	case HTML:
		return value.text, p.in == betweenTags
	case Attributes:
		if p.in == inTag && p.tag == "" {
			p.tag, p.name = p.name, ""
		}
		return value.text, p.in == inTag && !strings.HasSuffix(p.name, "=")
	case string:
		text = value
	default:
		text = fmt.Sprint(value)
	}
	switch {
	case p.in == betweenTags:
	case p.in != inValue:
		return "", false
	case slices.Contains(addresses, p.attribute):
		text = p.address(text)
	case !slices.Contains(textAttributes, p.attribute) && !strings.HasPrefix(p.attribute, "aria-") && !strings.HasPrefix(p.attribute, "data-"):
		return "", false
	}
	p.started = p.in == inValue
	return escaper.Replace(text), true
}

// address returns a part of an address.
func (p *place) address(text string) string {
	isControl := func(r rune) bool { return r < ' ' || r == 0x7f }
	switch {
	case p.query:
		return url.QueryEscape(text)
	case p.started && strings.Trim(text, ".") == "" && text != "":
		return "#"
	case p.started:
		return url.PathEscape(text)
	case !strings.HasPrefix(text, "/"), strings.HasPrefix(text, "//"), strings.Contains(text, `\`), strings.ContainsFunc(text, isControl),
		strings.Contains(text+"/", "/../"), strings.Contains(text+"/", "/./"):
		return "#"
	}
	return text
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "\x00", "\uFFFD")

package edit

import (
	"errors"
	"fmt"
	"strings"

	"perigee/internal/lib/lazyregexp"
)

// dotenvSyntax is the syntax of the npm package dotenv, which reads these files.
type dotenvSyntax struct{}

// dotenvLine is a variable with its value, which may span lines if it is in quotes.
var dotenvLine = lazyregexp.New(`(?m)^[ \t]*(?:export[ \t]+)?([\w.-]+)(?:[ \t]*=[ \t]*|:[ \t]+)` +
	`('(?:\\'|[^'])*'|"(?:\\"|[^"])*"|` + "`(?:\\\\`|[^`])*`" + `|[^#\r\n]+)?[ \t]*(?:#[^\n]*)?\r?$`)

var loneReturn = lazyregexp.New(`\r(?:[^\n]|$)`)

// A variable is an assignment: the offsets of its line and of its value, without the space around
// it.
type variable struct {
	name     string
	from, to int
	line     int
	end      int
}

func (dotenvSyntax) variables(src []byte) []variable {
	var found []variable
	for _, at := range dotenvLine().FindAllSubmatchIndex(src, -1) {
		v := variable{name: string(src[at[2]:at[3]]), line: at[0], end: at[1], from: at[1], to: at[1]}
		if at[4] >= 0 {
			v.from, v.to = at[4], at[4]+len(strings.TrimRight(string(src[at[4]:at[5]]), " \t\r"))
		} else {
			v.from = at[3] + strings.IndexAny(string(src[at[3]:at[1]]), "=:") + 1
			v.to = v.from
		}
		found = append(found, v)
	}
	return found
}

func (s dotenvSyntax) decode(src []byte) (map[string]any, error) {
	if loneReturn().Match(src) {
		return nil, errors.New("it has a carriage return that is not part of a line end")
	}
	tree := map[string]any{}
	for _, v := range s.variables(src) {
		if _, twice := tree[v.name]; twice {
			return nil, fmt.Errorf("the variable %s is there twice", v.name)
		}
		tree[v.name] = dotenvValue(string(src[v.from:v.to]))
	}
	return tree, nil
}

// dotenvValue returns the value of a text.
func dotenvValue(text string) string {
	if n := len(text); n >= 2 && strings.ContainsRune("'\"`", rune(text[0])) && text[n-1] == text[0] {
		value := text[1 : n-1]
		if text[0] == '"' {
			value = strings.NewReplacer(`\n`, "\n", `\r`, "\r").Replace(value)
		}
		return value
	}
	return text
}

func (s dotenvSyntax) find(src []byte, path Path) (v variable, ok bool, err error) {
	if len(path) != 1 {
		return v, false, fmt.Errorf("variables have no members")
	}
	for _, v := range s.variables(src) {
		if v.name == path[0] {
			return v, true, nil
		}
	}
	return v, false, nil
}

func (s dotenvSyntax) text(src []byte, path Path) (string, bool, error) {
	v, ok, err := s.find(src, path)
	return string(src[v.from:v.to]), ok, err
}

func (s dotenvSyntax) set(src []byte, path Path, text string) ([]byte, error) {
	v, ok, err := s.find(src, path)
	switch {
	case err != nil:
		return nil, err
	case ok:
		return splice(src, v.from, v.to, text), nil
	}
	return insertLines(src, len(src), []string{path[0] + "=" + text}), nil
}

func (s dotenvSyntax) remove(src []byte, path Path) ([]byte, error) {
	v, ok, err := s.find(src, path)
	if err != nil || !ok {
		return src, err
	}
	return removeLines(src, v.line, v.end), nil
}

func (dotenvSyntax) encode(value any) (string, error) {
	text := fmt.Sprint(value)
	if text != "" && !strings.ContainsAny(text, " \t\r\n#'\"`\\$") {
		return text, nil
	}
	for _, mark := range []string{"'", "`", `"`} {
		if !strings.Contains(text, mark) && !strings.ContainsAny(text, "\r\n\\") {
			return mark + text + mark, nil
		}
	}
	return "", fmt.Errorf("the value cannot be written to a file of variables")
}

package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/net/http/httpguts"
)

// JSON is a value of any type, as JSON text. In the file it is written as YAML.
type JSON string

// jsonOf appends a node as JSON. It reports a problem about a value that JSON does not have.
func (l *loader) jsonOf(dst []byte, node *yaml.Node, key string) (text []byte, ok bool) {
	switch node.Kind {
	case yaml.MappingNode:
		dst = append(dst, '{')
		for i, p := range l.pairs(node, 0) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendQuoted(dst, p.name), ':')
			if dst, ok = l.jsonOfChild(dst, p.value, key); !ok {
				return dst, false
			}
		}
		return append(dst, '}'), true
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, child := range node.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, ok = l.jsonOfChild(dst, child, key); !ok {
				return dst, false
			}
		}
		return append(dst, ']'), true
	}
	switch tag, value := node.ShortTag(), node.Value; tag {
	case "!!null":
		return append(dst, "null"...), true
	case "!!bool":
		return append(dst, strings.ToLower(value)...), true
	case "!!str", "!!timestamp":
		return appendQuoted(dst, value), true
	case "!!int", "!!float":
		if json.Valid([]byte(value)) {
			return append(dst, value...), true
		}
		if n, err := strconv.ParseInt(value, 0, 64); err == nil { // 0x10, 1_000
			return strconv.AppendInt(dst, n, 10), true
		}
		if n, err := strconv.ParseFloat(value, 64); err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) { // +1, .5
			return strconv.AppendFloat(dst, n, 'g', -1, 64), true
		}
	}
	l.refuse(key, "expected a value that JSON has, got "+describeNode(node), "put it in quotes if it is meant as text")
	return dst, false
}

// jsonOfChild is jsonOf for a node inside another one, which may be an alias.
func (l *loader) jsonOfChild(dst []byte, node *yaml.Node, key string) ([]byte, bool) {
	if node = l.follow(node); node == nil {
		return dst, false
	}
	return l.jsonOf(dst, node, key)
}

func appendQuoted(dst []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // a string is always JSON
	return append(dst, quoted...)
}

// ownMembers are members of a body that perigee itself sets.
var ownMembers = []string{"model", "stream", "messages", "input", "contents"}

// checkMember checks the path of a member.
func checkMember(text string) string {
	parts := strings.Split(text, ".")
	switch {
	case slices.Contains(parts, "") || strings.ContainsFunc(text, notVisible):
		return "expected the name of a member such as temperature, or a.b for the member b of a"
	case slices.Contains(ownMembers, parts[0]):
		return "expected a member other than " + strings.Join(ownMembers, ", ") + ", which perigee sets itself"
	}
	return ""
}

// checkRequests checks the settings that change requests to a provider.
func (l *loader) checkRequests(u Upstream, key string) {
	for name := range u.Headers {
		switch at := joinKey(key+".headers", name); {
		case !httpguts.ValidHeaderFieldName(name):
			l.problem(at, fmt.Sprintf("%s.headers: %q is not the name of a header", key, name), "")
		case forbiddenHeader(name):
			l.problem(at, fmt.Sprintf("%s.headers: %s cannot be set, since perigee sets it itself", key, name), "remove it")
		}
	}
	l.checkDuplicates(key+".models", u.Models)
	l.checkMembers(u, key)
	l.checkAddress(u, key)
	l.checkOwners(u, key)
}

// checkMembers checks the names in set, default and drop: only one of them may change a member, or
// a member inside it.
func (l *loader) checkMembers(u Upstream, key string) {
	changed := make(map[string]string) // the key that changes a member, by its path
	add := func(at, path string) {
		if other, ok := changed[path]; ok {
			l.problem(at, fmt.Sprintf("%s: %s changes %s already", at, other, path), "remove one of them")
			return
		}
		changed[path] = at
	}
	for _, m := range []struct {
		name    string
		members map[string]JSON
	}{{"set", u.Set}, {"default", u.Default}} {
		for _, path := range slices.Sorted(maps.Keys(m.members)) {
			at := joinKey(joinKey(key, m.name), path)
			if message := checkMember(path); message != "" {
				l.problem(at, fmt.Sprintf("%s.%s: %s, got %q", key, m.name, message, path), "")
			} else {
				add(at, path)
			}
		}
	}
	for i, path := range u.Drop {
		add(itemKey(key+".drop", i), path)
	}
	for _, path := range slices.Sorted(maps.Keys(changed)) {
		for i, r := range path {
			if other, ok := changed[path[:i]]; r == '.' && ok {
				l.problem(changed[path], fmt.Sprintf("%s: %s changes %s, which has it inside", changed[path], other, path[:i]), "remove one of them")
			}
		}
	}
}

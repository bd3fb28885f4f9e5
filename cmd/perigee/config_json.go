package main

import (
	"encoding/json"
	"errors"
	"strings"

	"perigee/internal/config"
)

// A problemRow is something that is wrong with the configuration, for a program. Line and column are 0 for what does not
// stand in the file.
type problemRow struct {
	Source  string `json:"source,omitempty"` // the file, "environment PERIGEE_LISTEN" or "flag --listen"
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
	// Severity is error for what has to be mended before anything starts, and warning for what is allowed but unwise.
	Severity string `json:"severity"`
}

const (
	severityError   = "error"
	severityWarning = "warning"
)

// problemRows are what an error says about the configuration, and what is said of one that holds.
func problemRows(loaded *config.Loaded, err error) []problemRow {
	var rows []problemRow
	add := func(list []config.Problem, severity string) {
		for _, p := range list {
			rows = append(rows, problemRow{p.Source, p.Line, p.Column, p.Message, p.Hint, severity})
		}
	}
	if problems, ok := errors.AsType[*config.Problems](err); ok {
		add(problems.List, severityError)
	} else if err != nil {
		rows = append(rows, problemRow{Message: err.Error(), Severity: severityError})
	}
	if loaded != nil {
		add(loaded.Cautions, severityWarning)
	}
	return rows
}

// A typedValue is a setting for a program: numbers, booleans and lists are such.
type typedValue struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin string `json:"origin"`
	Unused bool   `json:"unused,omitempty"`
}

func typedValues(values []config.Value) []typedValue {
	var schema schemaNode
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		panic("perigee: the schema of the configuration: " + err.Error())
	}
	typed := make([]typedValue, len(values))
	for i, v := range values {
		typed[i] = typedValue{v.Key, schema.typed(v.Key, v.Value), v.Origin, v.Unused}
	}
	return typed
}

// A schemaNode is as much of a JSON Schema as tells the type of a value.
type schemaNode struct {
	Type       any // a word, or several of them
	Properties map[string]*schemaNode
	Items      *schemaNode
	Additional json.RawMessage `json:"additionalProperties"` // false, or the schema of whatever comes
}

// typed gives the text of a setting the type that the schema has for it. What is not of that type, such as the word that stands
// for a secret, stays a text.
func (s *schemaNode) typed(key, text string) any {
	var value any
	switch kind, _ := s.find(key).Type.(string); kind {
	case "boolean", "integer", "number":
		if json.Unmarshal([]byte(text), &value) == nil {
			return value
		}
	case "array":
		if text == "[]" {
			return []any{}
		}
	case "object":
		if text == "{}" {
			return map[string]any{}
		}
	}
	return text
}

// find goes down to a key such as upstreams[0].oauth.redirect_port. The names in a map may have dots in them.
func (s *schemaNode) find(key string) *schemaNode {
	for key != "" && s != nil {
		if rest, inList := strings.CutPrefix(key, "["); inList {
			_, key, _ = strings.Cut(rest, "]")
			key, s = strings.TrimPrefix(key, "."), s.Items
			continue
		}
		name := key
		if end := strings.IndexAny(key, ".["); end >= 0 {
			name = key[:end]
		}
		property, ok := s.Properties[name]
		if !ok {
			s, key = s.anyName(), ""
			continue
		}
		s, key = property, strings.TrimPrefix(key[len(name):], ".")
	}
	if s == nil {
		return &schemaNode{}
	}
	return s
}

func (s *schemaNode) anyName() *schemaNode {
	var whatever schemaNode
	if json.Unmarshal(s.Additional, &whatever) != nil {
		return nil
	}
	return &whatever
}

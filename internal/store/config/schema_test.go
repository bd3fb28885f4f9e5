package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"
)

// Editors must not complain about what Load takes, and should complain about what it does not, as
// far as a schema can see.
func TestSchemaAgreesWithLoad(t *testing.T) {
	var schema any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	// What is wrong in these files is beyond a schema: other files, other values, or the text
	// itself. And a number for text is taken, but nothing that an editor should propose.
	beyond := []string{
		"numbers_as_text",
		"bad_environment_and_flags", "bad_value_replaced_by_environment", "public_listener_without_keys", "environment_of_lists", "interception_twice", "keep_alive", "listen_addresses", "misspelt_environment",
		"credentials_missing", "missing_secrets", "origins_wrong", "proxy_spared", "routes_and_aliases", "seal_key", "self_merge", "store_responses", "store_url_without_a_port", "two_documents", "urls",
	}
	paths, _ := filepath.Glob("testdata/*.txtar")
	compared := 0
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		document, ok := asJSON(t, archive)
		if !ok || slices.Contains(beyond, name) {
			continue
		}
		compared++
		src := sourcesOf(archive)
		src.Spare = nil // an editor does not know what will be used
		_, loadErr := Load(src)
		schemaErr := violation(schema, document, "")
		if (loadErr == nil) != (schemaErr == "") {
			t.Errorf("%s: the schema says %q, Load says %v", name, schemaErr, loadErr)
		}
	}
	if compared < 10 {
		t.Errorf("only %d files were compared", compared)
	}
}

// asJSON gives the configuration of a test as an editor sees it, unless it is not even YAML or has
// keys without values, which editors do not take.
func asJSON(t *testing.T, archive *txtar.Archive) (any, bool) {
	t.Helper()
	for _, f := range archive.Files {
		var document map[string]any
		if f.Name != "config.yaml" || yaml.Unmarshal(f.Data, &document) != nil || document == nil {
			continue
		}
		text, err := json.Marshal(document)
		if err != nil || strings.Contains(string(text), "null") {
			return nil, false
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		return value, true
	}
	return nil, false
}

func TestSchemaExplainsEverything(t *testing.T) {
	text := string(Schema())
	for _, want := range []string{
		`"$schema": "https://json-schema.org/draft/2020-12/schema"`,
		`"default": "127.0.0.1:8741"`,
		`"default": true`,
		`"examples"`,
		`"description": "The maximum size of a request body. Larger ones get 413."`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the schema has no %s", want)
		}
	}
	if n := strings.Count(text, `"additionalProperties": false`); n != 19 {
		t.Errorf("%d of 19 mappings are closed", n)
	}
	if strings.Contains(text, `"description": ""`) {
		t.Error("something is not explained")
	}
	if strings.Index(text, `"listen"`) > strings.Index(text, `"upstreams"`) {
		t.Error("the schema is not in the order of the file")
	}
}

// violation checks value against the part of JSON Schema that Schema uses, and says what does not
// fit.
func violation(schema, value any, at string) string {
	if schema == false {
		return at + " is not allowed"
	}
	rules, ok := schema.(map[string]any)
	if !ok {
		return ""
	}
	for _, check := range []func(map[string]any, any, string) string{scalarViolation, mappingViolation, listViolation, conditionViolation} {
		if v := check(rules, value, at); v != "" {
			return v
		}
	}
	return ""
}

func scalarViolation(rules map[string]any, value any, at string) string {
	if types, ok := rules["type"]; ok {
		list, ok := types.([]any)
		if !ok {
			list = []any{types}
		}
		if !slices.ContainsFunc(list, func(name any) bool { return hasType(value, name.(string)) }) {
			return fmt.Sprintf("%s is not %v", at, types)
		}
	}
	if enum, ok := rules["enum"].([]any); ok && !slices.Contains(enum, value) {
		return at + " is none of the choices"
	}
	if want, ok := rules["const"]; ok && !reflect.DeepEqual(want, value) {
		return fmt.Sprintf("%s is not %v", at, want)
	}
	if text, ok := value.(string); ok {
		if pattern, ok := rules["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(text) {
			return at + " does not match"
		}
		if least, ok := rules["minLength"].(float64); ok && float64(len(text)) < least {
			return at + " is too short"
		}
	}
	if number, ok := value.(float64); ok {
		if least, ok := rules["minimum"].(float64); ok && number < least {
			return at + " is too small"
		}
		if most, ok := rules["maximum"].(float64); ok && number > most {
			return at + " is too large"
		}
	}
	return ""
}

func hasType(value any, name string) bool {
	switch v := value.(type) {
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || name == "integer" && v == float64(int64(v))
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	return false
}

func mappingViolation(rules map[string]any, value any, at string) string {
	mapping, ok := value.(map[string]any)
	if !ok {
		return ""
	}
	required, _ := rules["required"].([]any)
	for _, name := range required {
		if _, ok := mapping[name.(string)]; !ok {
			return fmt.Sprintf("%s has no %s", at, name)
		}
	}
	properties, _ := rules["properties"].(map[string]any)
	for name, item := range mapping {
		rule, known := properties[name]
		if !known {
			rule = rules["additionalProperties"]
		}
		if v := violation(rule, item, joinKey(at, name)); v != "" {
			return v
		}
	}
	return ""
}

func listViolation(rules map[string]any, value any, at string) string {
	list, ok := value.([]any)
	if !ok {
		return ""
	}
	if least, ok := rules["minItems"].(float64); ok && float64(len(list)) < least {
		return at + " has too few items"
	}
	for i, item := range list {
		if v := violation(rules["items"], item, fmt.Sprintf("%s[%d]", at, i)); v != "" {
			return v
		}
	}
	return ""
}

func conditionViolation(rules map[string]any, value any, at string) string {
	all, _ := rules["allOf"].([]any)
	for _, rule := range all {
		if v := violation(rule, value, at); v != "" {
			return v
		}
	}
	if condition, ok := rules["if"]; ok && violation(condition, value, at) == "" {
		return violation(rules["then"], value, at)
	}
	return ""
}

package simulator

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"perigee/internal/simulator/rules"
)

// A mistake is an invalid key or value in a script. Line is 0 if it is not known.
type mistake struct {
	line int
	text string
}

func (m mistake) Error() string {
	if m.line == 0 {
		return m.text
	}
	return fmt.Sprintf("line %d: %s", m.line, m.text)
}

// misread returns the error for one value of a script. Reading continues after it.
func misread(node *yaml.Node, format string, args ...any) *yaml.TypeError {
	return &yaml.TypeError{Errors: []string{mistake{node.Line, fmt.Sprintf(format, args...)}.Error()}}
}

// report makes one error of all mistakes, a line for each.
func report(mistakes []mistake) error {
	slices.SortStableFunc(mistakes, func(a, b mistake) int { return cmp.Compare(a.line, b.line) })
	var list []error
	for _, m := range slices.Compact(mistakes) {
		list = append(list, fmt.Errorf("simulator script: %w", m))
	}
	return errors.Join(list...)
}

// decodeStrict decodes one YAML document; an empty one leaves v unchanged. The error lists every
// invalid key and value.
func decodeStrict(r io.Reader, v any) error {
	decoder := yaml.NewDecoder(r)
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return fmt.Errorf("simulator script: %w", err)
	}
	mistakes := unknownKeys(&document, reflect.TypeOf(v))
	err := document.Decode(v)
	if values, ok := errors.AsType[*yaml.TypeError](err); ok {
		mistakes = append(mistakes, readMistakes(values.Errors)...)
	} else if err != nil {
		return fmt.Errorf("simulator script: %w", err)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		mistakes = append(mistakes, mistake{0, "more than one document"})
	}
	return report(mistakes)
}

// wrongType matches the YAML package's error for a value of the wrong type, and typeWords maps its
// types to plain words.
var (
	wrongType = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^cannot unmarshal !!\\w+ `(.*)` into (.*)$") })
	typeWords = map[string]string{"int": "a number", "bool": "true or false"}
)

// readMistakes parses the YAML package's errors for values.
func readMistakes(lines []string) (mistakes []mistake) {
	for _, text := range lines {
		m := mistake{text: text}
		if rest, ok := strings.CutPrefix(text, "line "); ok {
			number, after, _ := strings.Cut(rest, ": ")
			if n, err := strconv.Atoi(number); err == nil {
				m = mistake{n, after}
			}
		}
		if found := wrongType().FindStringSubmatch(m.text); found != nil {
			m.text = fmt.Sprintf("%q is not %s", found[1], cmp.Or(typeWords[found[2]], "what stands here; a list or a mapping does"))
		}
		mistakes = append(mistakes, m)
	}
	return mistakes
}

// unknownKeys returns the keys in a document that a value of that type does not have, at any
// depth.
func unknownKeys(node *yaml.Node, t reflect.Type) (mistakes []mistake) {
	switch {
	case node.Kind == yaml.DocumentNode:
		return unknownKeys(node.Content[0], t)
	case node.Kind == yaml.AliasNode: // its target is checked where it is defined
		return nil
	case t.Kind() == reflect.Pointer:
		return unknownKeys(node, t.Elem())
	case node.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, item := range node.Content {
			mistakes = append(mistakes, unknownKeys(item, t.Elem())...)
		}
	case node.Kind == yaml.MappingNode && t.Kind() == reflect.Map:
		for i := 1; i < len(node.Content); i += 2 {
			mistakes = append(mistakes, unknownKeys(node.Content[i], t.Elem())...)
		}
	case node.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		fields := yamlFields(t)
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			at := slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Tag.Get("yaml") == key.Value })
			switch {
			case at >= 0:
				mistakes = append(mistakes, unknownKeys(node.Content[i+1], fields[at].Type)...)
			case key.Value != "<<": // which brings the keys of another mapping
				var known []string
				for _, f := range fields {
					known = append(known, f.Tag.Get("yaml"))
				}
				mistakes = append(mistakes, mistake{key.Line, fmt.Sprintf("unknown key %q%s", key.Value, instead(key.Value, known))})
			}
		}
	}
	return mistakes
}

// yamlFields returns the fields of a struct that a script can set.
func yamlFields(t reflect.Type) (fields []reflect.StructField) {
	for f := range t.Fields() {
		if f.Tag.Get("yaml") != "" {
			fields = append(fields, f)
		}
	}
	return fields
}

// Models returns the names of the provider's models that are simulated.
func Models() (list []string) {
	for _, m := range rules.ModelTable() {
		list = append(list, m.ID)
	}
	return list
}

// mistakes returns the mistakes of a script beyond its single values.
func (s *Script) mistakes() (list []mistake) {
	add := func(format string, args ...any) { list = append(list, mistake{0, fmt.Sprintf(format, args...)}) }
	if !slices.Contains([]string{"", "oauth", "google"}, s.OAuthErrors) {
		add("oauth_errors is %q, want oauth or google", s.OAuthErrors)
	}
	if s.MinVersion != "" && !validVersion(s.MinVersion) {
		add("min_version %q is not X.Y.Z", s.MinVersion)
	}
	models, switches := Models(), []string(nil)
	for id, model := range s.Models {
		if !slices.Contains(models, id) {
			add("there is no model %q to override%s", id, instead(id, models))
		}
		if model.MinVersion != "" && !validVersion(model.MinVersion) {
			add("model %s: min_version %q is not X.Y.Z", id, model.MinVersion)
		}
	}
	for _, known := range rules.SwitchList() {
		switches = append(switches, known.Name)
		if value, set := s.Switches[known.Name]; set && !slices.Contains(known.Values, fmt.Sprint(value)) {
			add("switch %s is %v, want one of %s", known.Name, value, strings.Join(known.Values, ", "))
		}
	}
	for name := range s.Switches {
		if !slices.Contains(switches, name) {
			add("unknown switch %q%s", name, instead(name, switches))
		}
	}
	slices.SortFunc(list, func(a, b mistake) int { return cmp.Compare(a.text, b.text) })
	return list
}

// instead ends a sentence about a word that is unknown: with the one that was meant, or else with
// all that there are.
func instead(word string, known []string) string {
	if len(known) > 0 && len(word) <= 64 {
		near := slices.MinFunc(known, func(a, b string) int { return cmp.Compare(edits(word, a), edits(word, b)) })
		if edits(word, near) <= max(len(word), len(near))/2 {
			return fmt.Sprintf("; did you mean %s?", near)
		}
	}
	return ", want one of " + strings.Join(known, ", ")
}

// edits counts the letters that have to be put in, taken out or replaced to make one word of
// another.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

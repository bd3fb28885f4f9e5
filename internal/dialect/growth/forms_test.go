package growth

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"perigee/internal/testing/perigeetest"
)

// An example is a request.
type example struct {
	path string
	body any // of package encoding/json
	size int
}

// A form is an example with lists that can be repeated.
type form struct {
	name     string
	example  example
	lists    []string // paths of the lists that are repeated together
	distinct bool     // the names, IDs and addresses in each copy are its own
}

// forms are the forms of all examples, each once: a list with elements of one kind at one place,
// and all outermost lists of a request at once.
func forms(t testing.TB) []form {
	t.Helper()
	list := examples(t)
	slices.SortStableFunc(list, func(a, b example) int { return cmp.Compare(a.size, b.size) })
	found := map[string]form{}
	for _, e := range list {
		api := endpoint(e.path)
		var outer []string
		for _, at := range lists(e.body, "", false) {
			add(found, form{name: api + " " + variable.ReplaceAllString(at.path, "$1") + at.kind, example: e, lists: []string{at.path}})
			if at.outer {
				outer = append(outer, at.path)
			}
		}
		if slices.Sort(outer); len(outer) > 1 {
			add(found, form{name: api + " " + strings.Join(outer, "+"), example: e, lists: outer})
		}
	}
	var all []form
	for _, name := range slices.Sorted(maps.Keys(found)) {
		all = append(all, found[name])
	}
	if len(all) < 400 {
		t.Fatalf("%d forms were found", len(all))
	}
	return all
}

// add adds a form that is not there yet, with equal copies and with distinct ones.
func add(found map[string]form, f form) {
	name := f.name
	for _, f.distinct = range []bool{false, true} {
		f.name = fmt.Sprintf("%s distinct=%v", name, f.distinct)
		if _, ok := found[f.name]; !ok {
			found[f.name] = f
		}
	}
}

// variable is what differs between paths of one form: indices of lists, and names of properties in
// schemas.
var variable = regexp.MustCompile(`\[\d+\]|((?:\.|^)properties)\.[^.\[]+`)

// endpoint is a path without the name of the model. Streamed requests have the same body.
func endpoint(path string) string {
	path, _, _ = strings.Cut(strings.Replace(path, "streamG", "g", 1), "?")
	if model, method, ok := strings.Cut(path, ":"); ok {
		return filepath.Dir(model) + ":" + method
	}
	return path
}

// A place is where an example has a list.
type place struct {
	path  string
	kind  string // of its elements
	outer bool   // it is in no other list
}

// maxDepth is how deep lists are looked for. No decoder reads lists below it one by one.
const maxDepth = 12

// lists finds the lists in a value that are not empty.
func lists(value any, path string, inner bool) (found []place) {
	if strings.Count(path, ".")+strings.Count(path, "[") > maxDepth {
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			found = append(found, lists(value[name], path+"."+name, inner)...)
		}
	case []any:
		if len(value) == 0 {
			return nil
		}
		found = append(found, place{path, kindOf(value), !inner})
		for i, element := range value {
			found = append(found, lists(element, fmt.Sprint(path, "[", i, "]"), true)...)
		}
	}
	return found
}

// kindOf describes the elements of a list: their types and roles, or the names of their members.
func kindOf(list []any) string {
	kinds := map[string]bool{}
	for _, element := range list {
		members, ok := element.(map[string]any)
		if !ok {
			kinds[fmt.Sprintf("%T", element)] = true
			continue
		}
		names := slices.Sorted(maps.Keys(members))
		for i, name := range names {
			if value, ok := members[name].(string); ok && (name == "type" || name == "role") {
				names[i] = value
			}
		}
		kinds[strings.Join(names, ",")] = true
	}
	return "{" + strings.Join(slices.Sorted(maps.Keys(kinds)), "|") + "}"
}

// grown is the body of a form whose lists have at least n elements.
func (f *form) grown(t testing.TB, n int) []byte {
	t.Helper()
	body, err := json.Marshal(f.repeat(f.example.body, "", n))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func (f *form) repeat(value any, path string, n int) any {
	switch value := value.(type) {
	case map[string]any:
		members := make(map[string]any, len(value))
		for name, member := range value {
			members[name] = f.repeat(member, path+"."+name, n)
		}
		return members
	case []any:
		if !slices.Contains(f.lists, path) {
			elements := make([]any, len(value))
			for i := range value {
				elements[i] = f.repeat(value[i], fmt.Sprint(path, "[", i, "]"), n)
			}
			return elements
		}
		var elements []any
		for i := 0; len(elements) < n; i++ {
			for _, element := range value {
				if f.distinct {
					element = marked(element, true, i)
				}
				elements = append(elements, element)
			}
		}
		return elements
	}
	return value
}

// named are the members whose values refer to something.
var named = map[string]bool{"name": true, "id": true, "call_id": true, "tool_call_id": true, "tool_use_id": true, "url": true, "image_url": true,
	"uri": true, "fileUri": true, "file_uri": true, "file_url": true, "file_id": true}

// marked returns a value with a number behind each string that names something.
func marked(value any, names bool, number int) any {
	switch value := value.(type) {
	case string:
		if names && !strings.HasPrefix(value, "data:") {
			return fmt.Sprint(value, "_", number)
		}
	case []any:
		elements := make([]any, len(value))
		for i := range value {
			elements[i] = marked(value[i], false, number)
		}
		return elements
	case map[string]any:
		members := make(map[string]any, len(value))
		for name, member := range value {
			members[name] = marked(member, named[name], number)
		}
		return members
	}
	return value
}

// examples are all requests of transcripts, of the tables of fields, and of real clients.
func examples(t testing.TB) (all []example) {
	t.Helper()
	tables := map[string]string{
		"/v1/chat/completions": "../openai/chat/rules.tsv", "/v1/responses": "../openai/responses/rules.tsv",
		"/v1/embeddings": "../openai/embeddings_rules.tsv", "/v1/images/generations": "../openai/images_rules.tsv",
		"/v1/messages": "../anthropic/rules.tsv",
	}
	add := func(path, body string) {
		e := example{path: path, size: len(body)}
		if json.Unmarshal([]byte(body), &e.body) == nil && (tables[path] != "" || strings.HasPrefix(path, "/v1")) {
			all = append(all, e)
		}
	}
	for path, table := range tables {
		before := len(all)
		for _, rule := range perigeetest.FieldRules(t, table) {
			add(path, rule.Example)
		}
		if len(all) == before {
			t.Fatalf("%s has no request for %s", table, path)
		}
	}
	for _, file := range glob(t, "../../daemon/testdata/*/*.txtar") {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range archive.Files {
			if head, body, ok := strings.Cut(string(part.Data), "\n\n"); ok && strings.HasPrefix(part.Name, "request") {
				line, _, _ := strings.Cut(head, "\n")
				add(strings.TrimSpace(strings.TrimPrefix(line, "POST")), body)
			}
		}
	}
	for _, file := range glob(t, "../../daemon/testdata/captures/*.jsonl.gz") {
		eachCapture(t, file, add)
	}
	return all
}

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files, %v", pattern, err)
	}
	return files
}

// eachCapture calls f with the requests of a real client.
func eachCapture(t testing.TB, file string, f func(path, body string)) {
	t.Helper()
	packed, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	for lines := json.NewDecoder(unpacked); ; {
		var c struct {
			Path string
			Body json.RawMessage
		}
		if err := lines.Decode(&c); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		f(c.Path, string(c.Body))
	}
}

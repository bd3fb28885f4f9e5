package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestLinesOfClients(t *testing.T) {
	for _, test := range []struct {
		line, scenario, failure string
		ok                      bool
	}{
		{"pass tool loop", "tool loop", "", true},
		{"fail image: no picture: none", "image", "no picture: none", true},
		{"(node) Warning: something", "", "", false},
	} {
		scenario, failure, ok := parseLine(test.line)
		if scenario != test.scenario || ok != test.ok || (failure == nil) != (test.failure == "") || failure != nil && failure.Error() != test.failure {
			t.Errorf("%q is read as %q, %v, %v", test.line, scenario, failure, ok)
		}
	}
}

func TestPatternChoosesClientsAndScenarios(t *testing.T) {
	all := []client{{name: "codex", scenarios: []string{question, image}}, {name: "genai go", scenarios: []string{question}}}
	for pattern, want := range map[string]string{
		"":             "codex: question\ncodex: image\ngenai go: question\n",
		"image":        "codex: image\n",
		"^genai":       "genai go: question\n",
		"codex: quest": "codex: question\n",
		"nobody":       "",
	} {
		var got bytes.Buffer
		list(&got, options{only: regexp.MustCompile(pattern)}.choose(all))
		if got.String() != want {
			t.Errorf("%q chooses\n%swant\n%s", pattern, &got, want)
		}
	}
	if len(all[0].scenarios) != 2 {
		t.Error("choosing changed the list that it was given")
	}
}

// Each agent runs a tool loop with each kind of upstream for every change, under a name that exists.
func TestEveryChangeNeedsEachAgentWithEachKind(t *testing.T) {
	chosen := map[string][]string{}
	for _, c := range (options{}).choose(providerClients()) {
		chosen[c.name] = c.scenarios
	}
	for _, name := range withProviders {
		if scenarios := chosen[name]; len(scenarios) == 0 || scenarios[0] != toolLoop {
			t.Errorf("%s: %q", name, scenarios)
		}
	}
	for _, agent := range []string{"claude code", "codex", "gemini cli", "qwen code", "copilot", "opencode", "anthropic go", "openai js chat", "genai go"} {
		for _, kind := range []string{"openai", "anthropic"} {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(chosen)), func(name string) bool {
				return strings.HasPrefix(name, agent) && strings.Contains(name, " from "+kind)
			}) {
				t.Errorf("%s does not run with kind %s", agent, kind)
			}
		}
	}
}

func TestReportEndsWithReasonsAndCounts(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out)
	c := client{name: "codex", version: "1.2.3", scenarios: []string{question, image}}
	r.add(c, question, nil)
	r.add(c, image, errors.New("no picture"))
	r.skip(client{name: "opencode", scenarios: []string{question, image}}, "npm ci: no such package")
	r.finish()
	if r.failed != 1 {
		t.Errorf("%d failed, want 1", r.failed)
	}
	for _, want := range []string{
		"FAIL  codex 1.2.3: image", "      no picture\n", "codex    | 1.2.3   | image    | FAIL\n",
		"\nskipped opencode: npm ci: no such package\n1 passed, 1 failed, 2 skipped\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not hold %q:\n%s", want, &out)
		}
	}
	if !strings.HasSuffix(out.String(), "\n1 passed, 1 failed, 2 skipped\n") {
		t.Errorf("the closing line is not the last one:\n%s", &out)
	}
}

func TestWitnessKnowsThePicture(t *testing.T) {
	drawn := drawPicture()
	var same bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.NoCompression} // other bytes, the same pixels
	if err := encoder.Encode(&same, drawn); err != nil {
		t.Fatal(err)
	}
	body := func(data []byte) []byte {
		return []byte(`{"contents":[{"parts":[{"text":"look"},{"inlineData":{"mimeType":"image/png","data":"` + base64.StdEncoding.EncodeToString(data) + `"}}]}]}`)
	}
	w := &witness{picture: drawn}
	w.note(body([]byte("not a picture")))
	if err := w.pictureArrived(); err == nil {
		t.Error("something else was taken for the picture")
	}
	w.note(body(same.Bytes()))
	if err := w.pictureArrived(); err != nil {
		t.Error(err)
	}
	if err := w.pictureArrived(); err == nil {
		t.Error("the picture of an earlier scenario was taken for that of a later one")
	}
}

// TestPinned keeps the manifests exact, and the lock files free of addresses: the registry is the
// choice of the machine that installs.
func TestPinned(t *testing.T) {
	manifests, err := filepath.Glob(filepath.Join("npm", "*", "package.json"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	manifests = append(manifests, filepath.Join("..", "vscode", "package.json"), filepath.Join("..", "opencode", "package.json"))
	exact := regexp.MustCompile(`^(npm:@?[\w./-]+@)?\d+\.\d+\.\d+(-[a-z]+\.\d+)?$`)
	for _, path := range manifests {
		var manifest struct{ Dependencies, DevDependencies, Overrides map[string]string }
		data, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(data, &manifest)
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(manifest.Dependencies)+len(manifest.DevDependencies) == 0 {
			t.Errorf("%s asks for nothing", path)
		}
		for _, packages := range []map[string]string{manifest.Dependencies, manifest.DevDependencies, manifest.Overrides} {
			for name, version := range packages {
				if !exact.MatchString(version) {
					t.Errorf("%s: %s is not pinned: %s", path, name, version)
				}
			}
		}
		lock, err := os.ReadFile(filepath.Join(filepath.Dir(path), "package-lock.json"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(lock, []byte(`"integrity"`)) || bytes.Contains(lock, []byte(`"resolved"`)) || bytes.Contains(lock, []byte("://")) {
			t.Errorf("the lock file beside %s must have integrity, and neither resolved nor any address", path)
		}
	}
}

// TestDocumentsHaveInstructions keeps the headings and blocks in place that the driver takes out of
// the documents.
func TestDocumentsHaveInstructions(t *testing.T) {
	t.Chdir("..")
	for _, d := range documentedClients() {
		i, err := d.instructions()
		if err != nil {
			t.Error(err)
			continue
		}
		if (d.program == "") != (i.lang != "") || (d.program == "") != (i.shell == "") {
			t.Errorf("%s of %s: want commands that call %q, or a program", d.name, d.document, d.program)
		}
		if d.program != "" && !regexp.MustCompile(`(?m)^[^#\n]*\b`+d.program+`\b.*# or: .*\b`+d.program+`\b.*"hello"$`).MatchString(i.shell) {
			t.Errorf("%s of %s: no line with the command for a terminal and, behind # or:, that for scripts:\n%s", d.name, d.document, i.shell)
		}
		if text := i.shell + i.script; len(i.files) == 0 && !strings.Contains(text, printedAddress) {
			t.Errorf("%s of %s: nothing says where perigee is:\n%s", d.name, d.document, text)
		}
	}
}

func TestInstructionsOfADocument(t *testing.T) {
	found := readInstructions("# Title\n```sh\nnothing\n```\n## One\ntext\n```toml ~/.one/config\na = 1\n```\n\n```sh\n# A comment\none    # or: one -p \"hello\"\n```\n### Two\n```js\nimport 'x';\n```\n")
	if len(found) != 3 || found[1].name != "One" || found[2].name != "Two" {
		t.Fatalf("found %+v", found)
	}
	one, two := found[1], found[2]
	if len(one.files) != 1 || one.files[0] != (printedFile{".one/config", "a = 1\n"}) || forScripts(one.shell) != "# A comment\none -p \"hello\"\n" {
		t.Errorf("One is %+v", one)
	}
	if two.lang != "js" || two.script != "import 'x';\n" || two.shell != "" {
		t.Errorf("Two is %+v", two)
	}
}

func TestSummaryOfTheConformanceSuite(t *testing.T) {
	said := "✗ not here: 1 passed, 1 failed\n=== SUMMARY ===\n✓ ping: 2 passed, 0 failed\n✗ tools-list: 1 passed, 2 failed\n✗ tasks-lifecycle: 1 passed, 8 failed\n" +
		"✓ caching: 3 passed, 0 failed\n✓ empty: 0 passed, 0 failed\n\nTotal: 7 passed, 10 failed\n\nNot scored for 2026-07-28: 2 scenario(s) run, 1 failing.\n" +
		"  ✗ tasks-lifecycle (extension)\n  ✓ caching (pending)\n"
	r := readSuite(said)
	if want := (suiteResult{scenarios: 3, passed: 1, checks: 3, failed: []string{"tools-list", "empty"}, further: 2, furtherPassed: 1}); !reflect.DeepEqual(r, want) {
		t.Errorf("read %+v, want %+v", r, want)
	}
	if got := r.summary(); got != "1 of 3 scenarios passed, with 3 checks; of 2 that do not count, 1" {
		t.Errorf("the summary is %q", got)
	}
}

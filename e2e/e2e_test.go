package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
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
		list(&got, choose(all, regexp.MustCompile(pattern)))
		if got.String() != want {
			t.Errorf("%q chooses\n%swant\n%s", pattern, &got, want)
		}
	}
	if len(all[0].scenarios) != 2 {
		t.Error("choosing changed the list that it was given")
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

// TestPinned keeps the manifests exact, and the lock files free of addresses: which registry is asked is the
// business of whoever installs.
func TestPinned(t *testing.T) {
	manifests, err := filepath.Glob(filepath.Join("npm", "*", "package.json"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	exact := regexp.MustCompile(`^(npm:@?[\w./-]+@)?\d+\.\d+\.\d+$`)
	for _, path := range manifests {
		var manifest struct{ Dependencies map[string]string }
		data, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(data, &manifest)
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(manifest.Dependencies) == 0 {
			t.Errorf("%s asks for nothing", path)
		}
		for name, version := range manifest.Dependencies {
			if !exact.MatchString(version) {
				t.Errorf("%s: %s is not pinned: %s", path, name, version)
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

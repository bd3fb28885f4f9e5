package importcmd

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected results")

// Each file in testdata has the configuration of another program (input), and what comes of it:
// perigee's configuration (config), sentences about it (notes) and an error (error).
func TestConvert(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no test data", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			input := archive.Files[0]
			converted, notes, failed := Convert(input.Data)
			results := []txtar.File{input, {Name: "config", Data: converted}, {Name: "notes"}, {Name: "error"}}
			if len(notes) > 0 {
				results[2].Data = []byte(strings.Join(notes, "\n") + "\n")
			}
			if failed != nil {
				results[3].Data = []byte(failed.Error() + "\n")
			}
			want := string(txtar.Format(archive))
			archive.Files = results[:1]
			for _, f := range results[1:] {
				if len(f.Data) > 0 {
					archive.Files = append(archive.Files, f)
				}
			}
			got := string(txtar.Format(archive))
			for line := range strings.Lines(string(input.Data)) {
				if _, secret, found := strings.Cut(line, "canary"); found && strings.Contains(string(converted)+strings.Join(notes, "\n"), "canary"+strings.Trim(secret, "\"', \n]}")) {
					t.Errorf("the secret of %s is in the result", line)
				}
			}
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// No text makes it fail in another way than with an error, and no beginning of a file either.
func TestConvertPartsOfFiles(t *testing.T) {
	texts := []string{"", "a", "{", "a: &a [*a]", "model_list: &a [*a]", "model_list: &a {model_name: *a}", "Providers: [[], {}, 1, null]",
		"model_list: [{litellm_params: {model: x/}}]", "Providers: [{name: '', api_base_url: 'http://a/v1', api_key: x}]",
		"api-keys: [{}]\nopenai-compatibility: [{name: 1, base-url: 'https://a.example/v1', headers: {'': canary-0123456789abcdef}}]"}
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no test data", err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(archive.Files[0].Data), "\n")
		for n := range lines {
			texts = append(texts, strings.Join(lines[:n], ""))
		}
	}
	converted := 0
	for _, text := range texts {
		if _, _, err := Convert([]byte(text)); err == nil {
			converted++
		}
	}
	if converted < 20 {
		t.Errorf("%d of %d texts were converted", converted, len(texts))
	}
}

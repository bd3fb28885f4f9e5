package config

import (
	"strings"
	"testing"
)

// The rules are those of Ollama's own programs, except that a client cannot call an unspecified
// address.
func TestOllamaAddress(t *testing.T) {
	for value, want := range map[string]string{
		"":                                 "http://127.0.0.1:11434",
		"0.0.0.0":                          "http://127.0.0.1:11434",
		"0.0.0.0:8080":                     "http://127.0.0.1:8080",
		"[::]:8080":                        "http://[::1]:8080",
		"::":                               "http://[::1]:11434",
		":8080":                            "http://127.0.0.1:8080",
		"localhost":                        "http://localhost:11434",
		"::1":                              "http://[::1]:11434",
		" \"127.0.0.1:1234\" ":             "http://127.0.0.1:1234",
		"127.0.0.1:99999":                  "http://127.0.0.1:11434",
		"127.0.0.1:port":                   "http://127.0.0.1:11434",
		"http://localhost":                 "http://localhost:80",
		"https://ollama.example":           "https://ollama.example:443",
		"https://ollama.example:8443/":     "https://ollama.example:8443",
		"https://ollama.example/behind/a/": "https://ollama.example:443/behind/a",
	} {
		if got := OllamaAddress(value); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

func TestOllamaThatAnswersIsAnUpstream(t *testing.T) {
	for _, c := range []struct {
		host, file string
		want       string // the upstreams
		asked      int
		warning    string
	}{
		{host: "", want: "openai ollama", asked: 1},
		{host: "127.0.0.1:9999", want: "openai", asked: 1, warning: "OLLAMA_HOST is set, but no Ollama server answers at http://127.0.0.1:9999"},
		{host: "http://127.0.0.1:9999/v1", want: "openai", asked: 1, warning: "OLLAMA_HOST is set, but no Ollama server answers at http://127.0.0.1:9999/v1; run export OLLAMA_HOST=…"},
		{host: "http://gpu.example:11434", want: "openai", warning: "OLLAMA_HOST is not used: perigee reaches servers on other machines only with https://"},
		{host: "http://a b", want: "openai", warning: "OLLAMA_HOST is not used: it is not an address"},
		{host: "", file: "log: warn\n", want: ""},
	} {
		src := exampleSources(c.file, map[string]string{"OLLAMA_HOST": c.host, "OPENAI_API_KEY": "sk-a-key-of-the-test"})
		if c.file == "" {
			_, missing := inDir(t, nil)
			src.Path, src.ReadFile, src.ConfigDir = "", nil, missing.ConfigDir
		}
		asked := 0
		src.AnswersOllama = func(url string) bool {
			asked++
			return url == "http://127.0.0.1:11434"
		}
		loaded, err := Load(src)
		if err != nil {
			t.Fatalf("%q: %v", c.host, err)
		}
		var names []string
		for _, u := range loaded.Config.Upstreams {
			names = append(names, u.Name)
		}
		if got := strings.Join(names, " "); got != c.want || asked != c.asked {
			t.Errorf("%q: upstreams %s, want %s; asked %d times", c.host, got, c.want, asked)
		}
		warnings := ""
		for _, w := range loaded.Warnings {
			if !strings.HasPrefix(w.Message, "data_dir") {
				warnings += w.Message + "; " + w.Hint
			}
		}
		if !strings.Contains(warnings, c.warning) || c.warning == "" && warnings != "" {
			t.Errorf("%q: warnings %q, want %q", c.host, warnings, c.warning)
		}
	}
}

// Locations are part of a host, and projects of a path.
func TestPlacesOfGoogleCloud(t *testing.T) {
	for text, want := range map[string]struct{ location, project bool }{
		"": {true, true}, "europe-west4": {true, true}, "my-project-1": {true, true}, "123456": {true, true}, "example.com:my-project": {false, true},
		"..": {}, "a_b": {false, true}, "a.b": {}, "evil.com/": {}, "a@evil.com/": {}, "evil.com#": {}, "../../x": {}, "..:x": {}, "A": {}, "-a": {}, "a b": {}, "a\n": {},
	} {
		if got := CheckLocation(text) == ""; got != want.location {
			t.Errorf("location %q: %v", text, got)
		}
		if got := CheckProject(text) == ""; got != want.project {
			t.Errorf("project %q: %v", text, got)
		}
	}
}

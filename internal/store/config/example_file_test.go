package config

import (
	"encoding/base64"
	"regexp"
	"strings"
	"testing"
)

// exampleSources see one file and nothing else of the machine.
func exampleSources(text string, env map[string]string) Sources {
	return Sources{
		Path: "config.yaml", HomeDir: "/home/me", ConfigDir: "/home/me/.config", system: "linux",
		Env:      func(name string) (string, bool) { value, ok := env[name]; return value, ok },
		ReadFile: func(string) ([]byte, error) { return []byte(text), nil },
	}
}

// surroundings returns the upstreams of an environment.
func surroundings(env map[string]string) []EnvironmentUpstream {
	return Surroundings(exampleSources("", env)).Environment
}

// The example holds as it is, and also when everything in it is uncommented.
func TestExampleHolds(t *testing.T) {
	env := map[string]string{
		"PERIGEE_KEY": "a-long-enough-secret", "ANTIGRAVITY_CLIENT_SECRET": "another-secret",
		"DATABASE_URL": "postgres://db/x", "PERIGEE_SEAL_KEY": base64.StdEncoding.EncodeToString(make([]byte, 32)),
		"OTEL_EXPORTER_OTLP_HEADERS": "api-key=a-secret", "OLLAMA_API_KEY": "a-key-of-the-test",
	}
	for _, name := range KeyVariables() {
		env[name] = "a-key-of-the-test"
	}
	commented := regexp.MustCompile(`(?m)^#($|[^ ]|  )`)
	for name, variables := range map[string]map[string]string{"with a key": env, "without": {}} {
		text := string(Example(surroundings(variables), nil))
		loaded, err := Load(exampleSources(text, variables))
		if err != nil || len(loaded.Warnings) > 0 {
			t.Fatalf("%s: %v, %q in\n%s", name, err, loaded.Warnings, text)
		}
		if got, want := len(loaded.Config.Upstreams), (len(environmentUpstreams)-1)*len(variables)/len(env); got != want { // no Ollama answers
			t.Errorf("%s: %d upstreams, want %d", name, got, want)
		}
		whole := commented.ReplaceAllString(text, "$1")
		src := exampleSources(whole, env)
		src.Spare = func(key string) bool { return key == "tls.key" } // the files are on no machine of ours
		loaded, err = Load(src)
		if err != nil || len(loaded.Config.Upstreams) != len(environmentUpstreams)+len(upstreamField("kind").enum) || // all but the simulator
			len(loaded.Config.Models.Routes) != 1 || loaded.Config.Limits.Body != 64<<20 {
			t.Errorf("%s, uncommented: %v in\n%s", name, err, whole)
		}
		for line := range strings.Lines(text) {
			if len(line) > exampleWidth+10 && !strings.Contains(line, "cloudcode-pa") {
				t.Errorf("%s: a long line: %s", name, line)
			}
		}
	}
}

// Every key of this version is in the example, under its explanation.
func TestExampleHasEveryKey(t *testing.T) {
	if *update {
		t.Skip("the binary of this test has the example as it was before the update")
	}
	text := string(Example(nil, nil))
	for _, fields := range allFields() {
		for _, f := range fields {
			key := regexp.MustCompile(`(?m)^#? *(- )?` + f.name + `:`)
			if !key.MatchString(text) {
				t.Errorf("%s is not in the example", f.path)
			}
		}
	}
}

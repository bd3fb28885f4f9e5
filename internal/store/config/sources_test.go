package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"perigee/internal/store/datadir"
)

// inDir gives sources that see only files under a directory of the test.
func inDir(t *testing.T, env map[string]string) (dir string, src Sources) {
	t.Helper()
	dir = t.TempDir()
	return dir, Sources{
		Env:       func(name string) (string, bool) { value, ok := env[name]; return value, ok },
		HomeDir:   filepath.Join(dir, "home"),
		ConfigDir: filepath.Join(dir, "etc"),
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFileIsNamedByFlagThenEnvironmentThenPlace(t *testing.T) {
	env := make(map[string]string)
	dir, src := inDir(t, env)
	load := func() *Loaded {
		t.Helper()
		loaded, err := Load(src)
		if err != nil {
			t.Fatal(err)
		}
		return loaded
	}
	if l := load(); l.Path != "" || l.Config.Listen != "127.0.0.1:8741" {
		t.Errorf("without a file: path %q, listen %s", l.Path, l.Config.Listen)
	}
	byPlace := filepath.Join(dir, "etc", "perigee", "config.yaml")
	write(t, byPlace, "listen: 127.0.0.1:1\n")
	if l := load(); l.Path != byPlace || l.Config.Listen != "127.0.0.1:1" {
		t.Errorf("by place: path %q, listen %s", l.Path, l.Config.Listen)
	}
	env["PERIGEE_CONFIG"] = filepath.Join(dir, "env.yaml")
	write(t, env["PERIGEE_CONFIG"], "listen: 127.0.0.1:2\n")
	if l := load(); l.Path != env["PERIGEE_CONFIG"] || l.Config.Listen != "127.0.0.1:2" {
		t.Errorf("by environment: path %q, listen %s", l.Path, l.Config.Listen)
	}
	src.Path = filepath.Join(dir, "flag.yaml")
	write(t, src.Path, "listen: 127.0.0.1:3\n")
	if l := load(); l.Path != src.Path || l.Config.Listen != "127.0.0.1:3" {
		t.Errorf("by flag: path %q, listen %s", l.Path, l.Config.Listen)
	}
}

func TestConfigurationIsWhereTheSystemKeepsIt(t *testing.T) {
	if filepath.Separator != '/' {
		t.Skip("the paths below are written with /")
	}
	for _, c := range []struct {
		system string
		env    map[string]string
		home   string
		want   []string
	}{
		{"linux", nil, "/h", []string{"/h/.config"}},
		{"linux", map[string]string{"XDG_CONFIG_HOME": "/x"}, "/h", []string{"/x"}},
		{"linux", map[string]string{"XDG_CONFIG_HOME": "relative"}, "/h", []string{"/h/.config"}},
		{"linux", nil, "", nil},
		{"freebsd", nil, "/h", []string{"/h/.config"}},
		{"darwin", nil, "/h", []string{"/h/.config", "/h/Library/Application Support"}},
		{"darwin", map[string]string{"XDG_CONFIG_HOME": "/x"}, "/h", []string{"/x", "/h/Library/Application Support"}},
		{"darwin", nil, "", nil},
		{"windows", map[string]string{"APPDATA": "/roaming", "XDG_CONFIG_HOME": "/x"}, "/h", []string{"/roaming"}},
		{"windows", nil, "/h", []string{"/h/AppData/Roaming"}},
	} {
		if got := datadir.ConfigDirs(c.system, func(name string) string { return c.env[name] }, c.home); !slices.Equal(got, c.want) {
			t.Errorf("%s with %v: %q, want %q", c.system, c.env, got, c.want)
		}
	}
}

// On macOS there are two places, and the file in either is read and followed.
func TestSecondPlaceOfTheConfiguration(t *testing.T) {
	dir, src := inDir(t, nil)
	src.system, src.ConfigDir = "darwin", ""
	first := filepath.Join(dir, "home", ".config", "perigee", "config.yaml")
	second := filepath.Join(dir, "home", "Library", "Application Support", "perigee", "config.yaml")
	load := func() *Loaded {
		t.Helper()
		loaded, err := Load(src)
		if err != nil {
			t.Fatal(err)
		}
		return loaded
	}
	if l := load(); l.Path != "" || l.Searched != first {
		t.Errorf("without a file: path %q, searched %q", l.Path, l.Searched)
	}
	write(t, second, "listen: 127.0.0.1:2\n")
	if l := load(); l.Path != second || l.Config.Listen != "127.0.0.1:2" {
		t.Errorf("in the second place: path %q, listen %s", l.Path, l.Config.Listen)
	}
	write(t, first, "listen: 127.0.0.1:1\n")
	if l := load(); l.Path != first || l.Config.Listen != "127.0.0.1:1" {
		t.Errorf("in both places: path %q, listen %s", l.Path, l.Config.Listen)
	}
}

func TestNamedFileMustExist(t *testing.T) {
	dir, src := inDir(t, map[string]string{"PERIGEE_CONFIG": "not-there.yaml"})
	_, err := Load(src)
	if got, want := fmt.Sprint(err), "not-there.yaml: the file does not exist; it is named by PERIGEE_CONFIG"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	src.Path = filepath.Join(dir, "neither.yaml")
	_, err = Load(src)
	if got, want := fmt.Sprint(err), src.Path+": the file does not exist; it is named by --config"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	src.Path = dir
	if _, err = Load(src); err == nil {
		t.Errorf("a directory as file: %v", err)
	}
}

func TestFileHasALimit(t *testing.T) {
	dir, src := inDir(t, nil)
	src.Path = filepath.Join(dir, "large.yaml")
	write(t, src.Path, strings.Repeat("# nothing\n", maxFile/10+1))
	if _, err := Load(src); err == nil || !strings.Contains(err.Error(), "larger than 1MiB") {
		t.Errorf("got %v", err)
	}
}

func TestFileMustBeUTF8(t *testing.T) {
	for text, want := range map[string]string{
		"log: info\nlisten: \"a\xff\"\n":  ":2:11: the file is not UTF-8 text",
		"\xff\xfel\x00o\x00g\x00":         ":1:1: the file is not UTF-8 text",
		"log: in\x00fo":                   ":1:8: the file is not UTF-8 text",
		"\xef\xbb\xbflog: debug\nlo: x\n": ":2:1: unknown key \"lo\"",
	} {
		_, src := inDir(t, nil)
		src.Path = "config.yaml"
		src.ReadFile = func(string) ([]byte, error) { return []byte(text), nil }
		if _, err := Load(src); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestDataDirIsWhereTheSystemKeepsData(t *testing.T) {
	if filepath.Separator != '/' {
		t.Skip("the paths below are written with /")
	}
	none := func(string) (string, bool) { return "", false }
	src := Sources{HomeDir: "/h", Env: none}
	for system, want := range map[string]string{
		"linux":   "/h/.local/share/perigee",
		"freebsd": "/h/.local/share/perigee",
		"darwin":  "/h/Library/Application Support/perigee",
		"windows": "/h/AppData/Local/perigee",
	} {
		src.system = system
		if got := datadir.Default(src.system, src.lookup, src.HomeDir); got != want {
			t.Errorf("%s: %s, want %s", system, got, want)
		}
	}
	src.Env = func(name string) (string, bool) {
		value, ok := map[string]string{"LOCALAPPDATA": "/local", "XDG_DATA_HOME": "relative"}[name]
		return value, ok
	}
	src.system = "windows"
	if got := datadir.Default(src.system, src.lookup, src.HomeDir); got != "/local/perigee" {
		t.Errorf("windows: %s", got)
	}
	src.system = "linux"
	if got := datadir.Default(src.system, src.lookup, src.HomeDir); got != "/h/.local/share/perigee" {
		t.Errorf("a relative XDG_DATA_HOME counts: %s", got)
	}
}

func TestLiteralSecretInAReadableFileIsAWarning(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean something else there")
	}
	dir, src := inDir(t, map[string]string{"K": "long-enough-for-us"})
	src.Path = filepath.Join(dir, "config.yaml")
	warnings := func(text string, mode os.FileMode) []Problem {
		t.Helper()
		write(t, src.Path, text)
		if err := os.Chmod(src.Path, mode); err != nil {
			t.Fatal(err)
		}
		loaded, err := Load(src)
		if err != nil {
			t.Fatal(err)
		}
		return loaded.Warnings
	}
	const literal, reference = "keys: [{name: a, secret: long-enough-for-us}]\n", "keys: [{name: a, secret: env:K}]\n"
	if w := warnings(literal, 0o600); len(w) != 0 {
		t.Errorf("for a private file: %q", w)
	}
	if w := warnings(reference, 0o644); len(w) != 0 {
		t.Errorf("for a file without secrets: %q", w)
	}
	if w := warnings("store: {url: \"\"}\n", 0o644); len(w) != 0 {
		t.Errorf("for an empty secret: %q", w)
	}
	w := warnings(literal, 0o640)
	if len(w) != 1 || !strings.Contains(w[0].Message, "keys[0].secret") || !strings.Contains(w[0].Message, "chmod 600") || strings.Contains(w[0].Message, "long-enough-for-us") {
		t.Errorf("for a readable file: %q", w)
	}
}

func TestSecretFilesThatOthersCanReadAreAWarning(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean something else there")
	}
	dir, src := inDir(t, nil)
	src.Path = filepath.Join(dir, "config.yaml")
	write(t, src.Path, "keys: [{name: a, secret: file:secret}]\nlimits: {body: a lot}\n")
	secret := filepath.Join(dir, "secret")
	write(t, secret, "long-enough-for-us")
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o644: 1, 0o640: 1} {
		if err := os.Chmod(secret, mode); err != nil {
			t.Fatal(err)
		}
		// Warnings are there also beside errors.
		loaded, err := Inspect(src)
		if err == nil || len(loaded.Warnings) != want || want == 1 && !strings.HasSuffix(loaded.Warnings[0].Message, "run chmod 600 "+secret) {
			t.Errorf("mode %o: %q, %v", mode, loaded.Warnings, err)
		}
	}
}

// A data directory that cannot be made is spoken of before anything is started, and nothing is made
// to find out.
func TestDataDirThatCannotBeMadeIsAWarning(t *testing.T) {
	dir, src := inDir(t, nil)
	write(t, filepath.Join(dir, "file"), "")
	places := map[string]string{"new/below": "", ".": "", "file": "is not a directory", "file/below": "is not a directory"}
	if runtime.GOOS == "linux" {
		places["/proc/foo"], places["/sys/a/b"] = "/proc cannot be written to", "/sys cannot be written to"
	}
	for place, want := range places {
		if !filepath.IsAbs(place) {
			place = filepath.Join(dir, place)
		}
		src.Flags = map[string]string{"data_dir": place}
		loaded, err := Load(src)
		if err != nil || (want == "") != (len(loaded.Warnings) == 0) || want != "" && !strings.Contains(loaded.Warnings[0].Message, want) {
			t.Errorf("%s: %q, %v; want %q", place, loaded.Warnings, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("the directory was made")
	}
}

func TestSecretsAreResolved(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/secrets_from_files.txtar")
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(sourcesOf(archive))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"aaaaaaaaaaaaaa", " only line breaks are trimmed ", "cccccccccccccc"} {
		if got := loaded.Config.Keys[i].Secret.Reveal(); got != want {
			t.Errorf("key %d is %q", i, got)
		}
	}
}

func TestRelativePathsCountFromTheFileThatHoldsThem(t *testing.T) {
	dir, src := inDir(t, map[string]string{"PERIGEE_STORE_URL": "file:store-url"})
	src.Path = filepath.Join(dir, "config.yaml")
	write(t, src.Path, "data_dir: data\nkeys: [{name: a, secret: file:secret}]\n")
	write(t, filepath.Join(dir, "secret"), "long-enough")
	t.Chdir(t.TempDir()) // flags and environment count from here
	write(t, "store-url", "postgres://db/x")
	loaded, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := loaded.Config.DataDir, filepath.Join(dir, "data"); got != want {
		t.Errorf("data_dir of the file is %s, want %s", got, want)
	}
	src.Flags = map[string]string{"data_dir": "data"}
	if loaded, err = Load(src); err != nil || loaded.Config.DataDir != "data" {
		t.Errorf("data_dir of the flag is %s, %v", loaded.Config.DataDir, err)
	}
}

// Whatever is wrong, and however a configuration is printed, the secrets in it stay where they are.
func TestSecretsAreNeverShown(t *testing.T) {
	const secret = "hunter2hunter2"
	for name, text := range map[string]string{
		"good":      "keys: [{name: a, secret: hunter2hunter2}]\nstore: {url: \"postgres://me:hunter2hunter2@db/x\"}",
		"twice":     "keys: [{name: a, secret: hunter2hunter2}, {name: b, secret: hunter2hunter2}]",
		"store":     "store: {url: \"mysql://me:hunter2hunter2@db/x\"}",
		"in a url":  "upstreams: [{name: a, kind: gemini, keys: [x], url: \"https://me:hunter2hunter2@x\"}]",
		"as query":  "upstreams: [{name: a, kind: gemini, keys: [x], url: \"https://x?key=hunter2hunter2\"}]",
		"list":      "keys: [hunter2hunter2]",
		"bad type":  "keys: [{name: a, secret: [hunter2hunter2]}]",
		"as anchor": "keys: [{name: a, secret: *hunter2hunter2 }]",
		"two lines": "keys: [{name: a, secret: \"hunter2hunter2\\nx\"}]",
		"tagged":    "keys: [{name: a, secret: !hunter hunter2hunter2}]",
		"as tag":    "keys: [{name: a, secret: !hunter2hunter2 }]",
		"as key":    "keys: [{name: a, secret: {hunter2hunter2: x}}]",
		"as alias":  "keys: [{name: a, secret: &hunter2hunter2 }]",
	} {
		_, src := inDir(t, nil)
		src.Path = "config.yaml"
		src.ReadFile = func(string) ([]byte, error) { return []byte(text), nil }
		loaded, err := Load(src)
		if (name == "good") != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		shown := fmt.Sprint(err)
		if err == nil {
			asJSON, _ := json.Marshal(loaded.Config)
			asYAML, _ := yaml.Marshal(loaded.Config)
			shown = fmt.Sprintf("%+v %#v %s %s %v %v", loaded.Config, loaded.Config, asJSON, asYAML, loaded.Values(), loaded.Warnings)
		}
		if strings.Contains(shown, secret) {
			t.Errorf("%s: shown in %s", name, shown)
		}
	}
}

func TestAliasesDoNotMultiply(t *testing.T) {
	var b strings.Builder
	b.WriteString("x0: &x0 {idle: 1s}\n")
	for i := range 9 {
		item := fmt.Sprintf("*x%d, ", i)
		fmt.Fprintf(&b, "x%d: &x%d {<<: [%s]}\n", i+1, i+1, strings.Repeat(item, 20))
	}
	b.WriteString("limits: *x9\n")
	_, src := inDir(t, nil)
	src.Path = "config.yaml"
	src.ReadFile = func(string) ([]byte, error) { return []byte(b.String()), nil }
	_, err := Load(src)
	if err == nil || !strings.Contains(err.Error(), "once its aliases are followed") {
		t.Errorf("got %v", err)
	}
}

func TestEveryVariableHasItsOwnName(t *testing.T) {
	seen := map[string]string{EnvFile: "the file"}
	for _, leaf := range leaves(new(Config)) {
		if other := seen[leaf.env()]; other != "" {
			t.Errorf("%s is for %s and for %s", leaf.env(), other, leaf.key)
		}
		seen[leaf.env()] = leaf.key
	}
	for _, name := range []string{"PERIGEE_LISTEN", "PERIGEE_DATA_DIR", "PERIGEE_LOG", "PERIGEE_STRICT", "PERIGEE_STORE_URL"} {
		if seen[name] == "" {
			t.Errorf("%s is promised and not read", name)
		}
	}
}

// A misspelt tag would silently be no rule at all.
func TestTagsAreKnown(t *testing.T) {
	known := map[string]bool{"yaml": true, "default": true, "enum": true, "kinds": true, "kind_default": true, "format": true, "min": true, "max": true, "required": true, "usual": true, "example": true}
	for typ := range allFields() {
		for i := range typ.NumField() {
			for _, part := range strings.Split(string(typ.Field(i).Tag), `" `) {
				name, _, _ := strings.Cut(part, ":")
				if !known[name] {
					t.Errorf("%s.%s has a tag %q", typ.Name(), typ.Field(i).Name, name)
				}
			}
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	archive, err := txtar.ParseFile("testdata/contract_example.txtar")
	if err != nil {
		b.Fatal(err)
	}
	src := sourcesOf(archive)
	for b.Loop() {
		if _, err := Load(src); err != nil {
			b.Fatal(err)
		}
	}
}

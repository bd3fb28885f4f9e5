package mcpserver

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"perigee"
	"perigee/internal/lib/filetool"
	"perigee/internal/store/config"
)

// With the home directory as a root, the configuration and the files of secrets are in it. A
// configuration that is not there yet must not be written either: perigee would use it.
func TestFilesOfTheConfigurationAreOutOfReach(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(home, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("key-a", "a-secret-of-a-client")
	write("key-b", "b-secret-of-a-client")
	path := write("perigee.yaml", "")
	load := func(path, key string) *config.Loaded {
		t.Helper()
		if path != "" {
			write("perigee.yaml", "data_dir: "+filepath.Join(home, "data")+"\nmcp: {roots: ["+home+"], http_write: true}\n"+
				"keys: [{name: team, secret: 'file:"+filepath.Join(home, key)+"'}]\n")
		}
		loaded, err := config.Load(config.Sources{Path: path, HomeDir: home, ConfigDir: filepath.Join(home, ".config"),
			Env: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
		return loaded
	}
	loaded := load(path, "key-a")
	files := Files(func() *config.Loaded { return loaded }, slog.New(slog.DiscardHandler))
	reads := func(name string) bool {
		t.Helper()
		_, err := files(Caller{Key: "team"}).Read(t.Context(), filetool.ReadInput{Path: name})
		if err != nil && perigee.AsError(err).Class != perigee.ClassForbidden {
			t.Errorf("%s: %v", name, err)
		}
		return err == nil
	}
	if reads("perigee.yaml") || reads("key-a") || !reads("key-b") {
		t.Error("the file of a secret can be read, or another file cannot")
	}
	loaded = load(path, "key-b")
	if reads("key-b") || !reads("key-a") {
		t.Error("after a reload the file of a secret can be read, or another file cannot")
	}

	none := load("", "")
	if none.Path != "" || none.Searched == "" {
		t.Fatalf("the configuration is %q, searched at %q", none.Path, none.Searched)
	}
	tools, err := filetool.New(filetool.Options{Roots: []string{home}, Write: true, Forbidden: PrivateFiles(none)})
	if err != nil {
		t.Fatal(err)
	}
	defer tools.Close()
	if filepath.IsAbs(none.Searched) {
		_, err = tools.Write(t.Context(), filetool.WriteInput{Path: none.Searched, Content: "keys: []\n", CreateDirs: true})
		if err == nil || perigee.AsError(err).Class != perigee.ClassForbidden {
			t.Errorf("the configuration was written: %v", err)
		}
	}
}

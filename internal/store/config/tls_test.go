package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"perigee/internal/store/config"
	"perigee/internal/testing/perigeetest"
)

func TestTLS(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	put := func(name string, text []byte, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	cert, key := perigeetest.Certificate(t, "good", now.Add(-time.Hour), now.Add(time.Hour))
	put("good.crt", cert, 0o644)
	put("good.key", key, 0o640)
	put("open.key", key, 0o644)
	put("both.pem", append(cert, key...), 0o600)
	cert, key = perigeetest.Certificate(t, "old", now.Add(-48*time.Hour), now.Add(-24*time.Hour))
	put("old.crt", cert, 0o644)
	put("old.key", key, 0o600)
	cert, key = perigeetest.Certificate(t, "new", now.Add(24*time.Hour), now.Add(48*time.Hour))
	put("new.crt", cert, 0o644)
	put("new.key", key, 0o600)
	put("empty", nil, 0o600)
	for _, c := range []struct{ text, problem, warning string }{
		{"tls: {cert: good.crt, key: good.key}", "", ""},
		{"listen: 0.0.0.0:8741\ntls: {cert: good.crt, key: good.key}", "", ""},
		{"tls: {cert: both.pem, key: both.pem}", "", ""},
		{"listen: 0.0.0.0:8741", "", "can be reached from other machines, and keys and prompts are sent there unencrypted; set tls"},
		{"listen: 127.0.0.1:8741", "", ""},
		{"tls: {cert: old.crt, key: old.key}", "", "the certificate expired on"},
		{"tls: {cert: new.crt, key: new.key}", "", "the certificate is not valid before"},
		{"tls: {cert: good.crt, key: open.key}", "", "can be read by every user (mode 0644)"},
		{"tls: {cert: good.crt}", "tls.cert has no private key beside it; set tls.key", ""},
		{"tls: {key: good.key}", "tls.key has no certificate beside it; set tls.cert", ""},
		{"tls: {cert: good.crt, key: old.key}", "does not belong to the certificate", ""},
		{"tls: {cert: good.crt, key: nowhere}", "nowhere: does not exist", ""},
		{"tls: {cert: ., key: good.key}", "is not a regular file", ""},
		{"tls: {cert: empty, key: good.key}", "tls.cert has no certificate that can be used", ""},
		{"tls: {cert: good.key, key: good.key}", "tls.cert has no certificate that can be used", ""},
		{"tls: {cert: good.crt, key: empty}", "tls.key has no private key that can be used", ""},
		{"tls: {cert: good.crt, key: good.crt}", "tls.key has no private key that can be used", ""},
	} {
		if runtime.GOOS == "windows" && strings.Contains(c.warning, "mode") {
			continue
		}
		put("config.yaml", []byte(c.text+"\nkeys: [{name: a, secret: \"a-secret-that-is-long-enough\"}]\n"), 0o600)
		src := config.Sources{Path: filepath.Join(dir, "config.yaml"), Env: func(string) (string, bool) { return "", false }, HomeDir: dir}
		loaded, err := config.Load(src)
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%s: %v", c.text, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := fmt.Sprint(loaded.Warnings); (c.warning == "") != (got == "[]") || !strings.Contains(got, c.warning) {
			t.Errorf("%s: warnings %q", c.text, got)
		}
		if want := strings.Contains(c.text, "tls"); (loaded.Certificate != nil) != want {
			t.Errorf("%s: a certificate: %v", c.text, !want)
		}
		src.Spare = func(string) bool { return true } // a command that does not listen, perhaps of another user
		if loaded, err := config.Load(src); err != nil || loaded.Certificate != nil {
			t.Errorf("%s: read for nothing: %v", c.text, err)
		}
	}
}

package connectcmd

import (
	"strings"
	"testing"

	"perigee"
	"perigee/internal/cli/command"
	"perigee/internal/store/config"
)

func TestAddress(t *testing.T) {
	tests := []struct{ configured, listens, want string }{
		{"127.0.0.1:8741", "", "http://127.0.0.1:8741"},
		{"127.0.0.1:8741", "http://127.0.0.1:4321", "http://127.0.0.1:4321"},
		{"127.0.0.1:8741", "https://127.0.0.1:4321", "https://127.0.0.1:4321"},
		{"0.0.0.0:8741", "", "http://127.0.0.1:8741"},
		{":8741", "", "http://127.0.0.1:8741"},
		{"127.0.0.1:0", "http://[::]:4321", "http://127.0.0.1:4321"},
		{"[::1]:8741", "", "http://[::1]:8741"},
		{"gateway.example.com:8741", "", "http://gateway.example.com:8741"},
		{"127.0.0.1:0", "", ""},
		{"127.0.0.1:8741", "unix:/run/perigee/http.sock", ""},
	}
	for _, test := range tests {
		got, err := command.Address(&config.Config{Listen: test.configured}, test.listens)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%+v: got %q, %v", test, got, err)
		}
	}
	encrypted := &config.Config{Listen: "127.0.0.1:8741"}
	encrypted.TLS.Cert = "cert.pem"
	if got, err := command.Address(encrypted, ""); got != "https://127.0.0.1:8741" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// A secret in place of a key's name is not repeated.
func TestASecretInPlaceOfAKeyIsNotShown(t *testing.T) {
	cfg := &config.Config{Keys: []config.Key{
		{Name: "laptop", Secret: perigee.NewSecret("sk-canary-of-the-laptop")}, {Name: "ci", Secret: perigee.NewSecret("short-canary")},
	}}
	for wanted, want := range map[string]string{
		"short-canary":                        "run: that is a key's secret; give its name: --key ci",
		"sk-canary-of-the-laptop":             "run: that is a key's secret; give its name: --key laptop",
		"sk-ant-api03-canary0123456789abcdef": "run: that looks like a key's secret; give the name of a key: laptop, ci",
		"canary":                              "run: no key has that name; the keys are laptop, ci",
		"lapto":                               `run: no key is named "lapto"; did you mean laptop?`,
	} {
		_, _, err := chooseKey("run", cfg, wanted)
		if err == nil || err.Error() != want || strings.Contains(err.Error(), "canary") {
			t.Errorf("--key %s: got %v", wanted, err)
		}
	}
	if secret, name, err := chooseKey("run", cfg, "ci"); err != nil || name != "ci" || !secret.Equal("short-canary") {
		t.Errorf("got %s, %v", name, err)
	}
}

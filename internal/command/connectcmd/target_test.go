package connectcmd

import (
	"testing"

	"perigee/internal/config"
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
		got, err := address(&config.Config{Listen: test.configured}, test.listens)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%+v: got %q, %v", test, got, err)
		}
	}
	encrypted := &config.Config{Listen: "127.0.0.1:8741"}
	encrypted.TLS.Cert = "cert.pem"
	if got, err := address(encrypted, ""); got != "https://127.0.0.1:8741" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

package fetch

import (
	"testing"
)

func TestDialledAddressesAreChecked(t *testing.T) {
	f := New(Options{})
	for address, want := range map[string]error{
		"93.184.215.14:443":      nil,
		"93.184.215.14:80":       nil,
		"93.184.215.14:22":       errPort,
		"93.184.215.14:8080":     errPort,
		"127.0.0.1:80":           errNotPublic,
		"[::ffff:127.0.0.1]:443": errNotPublic,
		"[fe80::1%lo]:80":        errNotPublic,
		"10.0.0.1:22":            errNotPublic,
	} {
		if err := f.checkAddress("tcp", address, nil); err != want {
			t.Errorf("%s: %v, want %v", address, err, want)
		}
	}
	if err := f.checkAddress("tcp", "example.com:80", nil); err == nil {
		t.Error("a name was taken for an address")
	}
}

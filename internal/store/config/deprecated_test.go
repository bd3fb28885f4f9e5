package config

import (
	"reflect"
	"slices"
	"testing"
)

// No key is deprecated at present, so the test has keys of its own.
type oldAndNew struct {
	Old   string   `yaml:"old" deprecated:"since 0.2.0; use new"`
	New   string   `yaml:"new"`
	Unset int      `yaml:"unset" deprecated:"since 0.2.0; it has no effect" default:"3"`
	List  []string `yaml:"list" deprecated:"since 0.3.0; use lists"`
	Inner []struct {
		Size int `yaml:"size" deprecated:"since 0.2.0; use bytes"`
	} `yaml:"inner"`
}

// A deprecated key works, and is one warning with its place and its replacement. One that is not set
// is none, even if it has a default.
func TestDeprecatedKeysAreWarnings(t *testing.T) {
	root, bad := parseTree([]byte("new: b\nold: a\nlist: [x, y]\ninner:\n  - size: 1\n  - {}\n  - size: 2\n"))
	if bad != nil {
		t.Fatal(bad)
	}
	var c oldAndNew
	l := newLoader(Sources{})
	l.Path = "perigee.yaml"
	l.decodeMapping(root, reflect.ValueOf(&c).Elem(), "")
	if l.err() != nil || c.Old != "a" || len(c.List) != 2 || c.Inner[2].Size != 2 {
		t.Fatalf("decoded %+v, %v", c, l.err())
	}
	l.warnAboutDeprecated(&c)
	var got []string
	for _, w := range l.Warnings {
		got = append(got, w.String())
	}
	want := []string{
		"perigee.yaml:2:6: old is deprecated since 0.2.0; use new",
		"perigee.yaml:3:7: list is deprecated since 0.3.0; use lists",
		"perigee.yaml:5:11: inner[0].size is deprecated since 0.2.0; use bytes",
		"perigee.yaml:7:11: inner[2].size is deprecated since 0.2.0; use bytes",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

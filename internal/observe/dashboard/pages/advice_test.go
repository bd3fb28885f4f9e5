package pages

import (
	"strings"
	"testing"

	"perigee"
)

// What helps depends on whether the call had an account, and on whether its request can be shrunk.
func TestAdviceFitsTheCall(t *testing.T) {
	for _, c := range []struct {
		class      perigee.Class
		account    string
		shrinkable bool
		command    string
		word       string
	}{
		{perigee.ClassUnauthenticated, "ada@example.com", false, "perigee login", "sign-in"},
		{perigee.ClassUnauthenticated, "", false, "perigee config show", "Check the keys"},
		{perigee.ClassExhausted, "ada@example.com", false, "perigee quota", "every usable account"},
		{perigee.ClassExhausted, "", false, "perigee explain gpt-4o", "API keys"},
		{perigee.ClassForbidden, "ada@example.com", false, "perigee account list", "state of the account"},
		{perigee.ClassForbidden, "", false, "", "models that the key may use"},
		{perigee.ClassInvalid, "", true, "perigee trace shrink c1", "Shrinking"},
		{perigee.ClassInvalid, "", false, "", "what the error names."},
	} {
		call := perigee.Call{ID: "c1", Class: c.class, Account: c.account, ModelAsked: "gpt-4o"}
		a := AdviceOn(&call, c.shrinkable)
		if a.Command != c.command || !strings.Contains(a.Meaning+" "+a.Next, c.word) {
			t.Errorf("%+v: got %+v", c, a)
		}
	}
	if a := AdviceOn(&perigee.Call{Class: perigee.ClassExhausted, ModelAsked: "$(date)"}, false); a.Command != "" {
		t.Errorf("a name that a shell would run: %q", a.Command)
	}
}

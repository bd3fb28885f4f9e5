package command

import "testing"

func TestCommandsAboutOneAccountNameIt(t *testing.T) {
	for text, want := range map[string]string{
		"open it, then run `perigee account enable` with its address": "open it, then run `perigee account enable ada@example.com`",
		"after that, perigee account enable EMAIL":                    "after that, perigee account enable ada@example.com",
		"`perigee account enable bob@example.com` changes that":       "`perigee account enable bob@example.com` changes that",
	} {
		if got := Addressed(text, "ada@example.com"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

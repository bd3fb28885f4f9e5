package completioncmd

import (
	"embed"
	"slices"
)

//go:embed scripts/*
var scripts embed.FS

// Shells are the shells that there is a script for.
var Shells = []string{"bash", "zsh", "fish", "powershell"}

// Script returns the script of a shell. It calls perigee completion candidates, with the current
// word after a colon first, because some shells do not pass empty words on.
func Script(shell string) (script string, ok bool) {
	if !slices.Contains(Shells, shell) {
		return "", false
	}
	text, err := scripts.ReadFile("scripts/" + shell)
	return string(text), err == nil
}

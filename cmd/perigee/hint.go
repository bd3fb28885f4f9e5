package main

import (
	"regexp"
	"runtime"
	"strings"
)

// suggestions are the commands that a message tells somebody to type, with their second word where they have one. A test
// holds them against the commands that there are.
var suggestions = regexp.MustCompile(`\bperigee (?:(?:account|config|trace|store) [a-z]+|serve|login|account|models|quota|usage|store|audit)\b`)

// hint gives the commands in a message the --config that this one was called with: without it they would be about
// another configuration.
func (e *environment) hint(message string) string {
	if e.config == "" {
		return message
	}
	return suggestions.ReplaceAllStringFunc(message, func(command string) string {
		return command + " --config " + shellWord(e.config)
	})
}

// shellWord writes a word so that a shell reads it as one.
func shellWord(word string) string {
	plain := func(r rune) bool {
		return r > 0x7f || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("@%+=:,./-_", r)
	}
	if runtime.GOOS == "windows" {
		if strings.ContainsFunc(word, func(r rune) bool { return !plain(r) && r != '\\' }) {
			return `"` + word + `"`
		}
		return word
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

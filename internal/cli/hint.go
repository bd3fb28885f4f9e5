package cli

import (
	"regexp"
	"runtime"
	"strings"
)

// Hint adds the --config of this command to the commands that a message suggests. Without it they would use another
// configuration.
func (e *Env) Hint(message string) string {
	if e.Config == "" {
		return message
	}
	var suggested []string
	for _, c := range e.Program.Commands {
		for _, word := range c.Subcommands {
			suggested = append(suggested, c.Name+" "+strings.Fields(word)[0])
		}
		if !c.NoConfig {
			suggested = append(suggested, c.Name)
		}
	}
	pattern := regexp.MustCompile(`\bperigee (` + strings.Join(suggested, "|") + `)\b`)
	return pattern.ReplaceAllStringFunc(message, func(command string) string { return command + " --config " + ShellWord(e.Config) })
}

var plainWord = regexp.MustCompile(`^[\pL\pN@%+=:,./_\\-]+$`)

// ShellWord quotes a word for a shell, where that is needed.
func ShellWord(word string) string {
	windows := runtime.GOOS == "windows"
	switch {
	case plainWord.MatchString(word) && (windows || !strings.Contains(word, `\`)):
		return word
	case windows:
		return `"` + word + `"`
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

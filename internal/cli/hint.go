package cli

import (
	"regexp"
	"strings"

	"perigee/internal/lib/terminal"
)

// Hint adds the --config of this command to the commands that a message suggests. Without it they
// would use another configuration.
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
	return pattern.ReplaceAllStringFunc(message, func(command string) string {
		return command + " --config " + terminal.ShellWord(e.Config)
	})
}

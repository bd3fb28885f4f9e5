package terminal

import (
	"runtime"
	"strings"

	"perigee/internal/lib/lazyregexp"
)

var plainWord = lazyregexp.New(`^[\pL\pN@%+=:,./_\\-]+$`)

// ShellWord returns a word for a command line of this system: quoted where that is needed.
func ShellWord(word string) string {
	windows := runtime.GOOS == "windows"
	switch {
	case plainWord().MatchString(word) && (windows || !strings.Contains(word, `\`)):
		return word
	case windows:
		return `"` + word + `"`
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

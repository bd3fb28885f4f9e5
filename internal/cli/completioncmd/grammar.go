package completioncmd

import (
	"slices"
	"strings"

	"perigee/internal/lib/lazyregexp"
)

// A usage is one form of a command, as the help describes it: "perigee account import FILE
// [--upstream NAME] [--json]".
type usage struct {
	subcommands []string // one of which is the first argument; nil if there is none
	arguments   []string // "FILE", "EMAIL"
	flags       []flag
}

// A flag is a flag of a command.
type flag struct {
	name     string // with its dashes
	value    string // its value: "NAME", "system|nss"; empty if it takes none
	repeated bool
}

var (
	placeholder = lazyregexp.New(`^[A-Z][A-Z_]*$`)
	description = lazyregexp.New(`^ +(--[a-z-]+|[a-z]+)(?: [A-Z][A-Za-z_]*)? {2,}(\S.*)$`)
)

// parseHelp reads the usage lines of a help text, and the descriptions of flags and subcommands.
// perigee's help has both for people; a test compares them with the flags that commands define.
func parseHelp(help string, subcommands []string) (forms []usage, describes map[string]string) {
	head, rest, _ := strings.Cut(help, "\n\n")
	head = strings.TrimPrefix(head, "usage:")
	for form := range strings.SplitSeq(strings.Join(strings.Fields(head), " ")+" ", "perigee ") {
		words := strings.Fields(form)
		if len(words) > 0 {
			forms = append(forms, parseForm(words[1:], subcommands))
		}
	}
	describes = map[string]string{}
	for line := range strings.Lines(rest) {
		if found := description().FindStringSubmatch(strings.TrimRight(line, "\n")); found != nil && describes[found[1]] == "" {
			describes[found[1]] = found[2]
		}
	}
	return forms, describes
}

// parseForm reads the words after the command.
func parseForm(words, subcommands []string) (u usage) {
	for i := 0; i < len(words); i++ {
		word := words[i]
		repeated := strings.HasSuffix(word, "...")
		word = strings.Trim(strings.TrimSuffix(word, "..."), "[]")
		switch {
		case strings.HasPrefix(word, "--") && word != "--":
			f := flag{name: word, repeated: repeated}
			if next := i + 1; !strings.HasSuffix(words[i], "]") && next < len(words) && words[next] != "|" && !strings.HasPrefix(words[next], "[") {
				f.value = strings.Trim(strings.TrimSuffix(words[next], "..."), "[]")
				f.repeated = strings.HasSuffix(words[next], "...")
				i = next
			}
			u.flags = append(u.flags, f)
		case i == 0 && slices.Contains(subcommands, strings.Split(word, "|")[0]):
			u.subcommands = strings.Split(word, "|")
		case placeholder().MatchString(word):
			u.arguments = append(u.arguments, word)
		case i == 0 && strings.Contains(word, "|"): // the values of an argument
			u.arguments = append(u.arguments, word)
		}
	}
	return u
}

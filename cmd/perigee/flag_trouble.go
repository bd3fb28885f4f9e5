package main

import (
	"flag"
	"fmt"
	"regexp"
	"strings"

	"perigee/internal/names"
)

// What package flag says about a command line, in its own words; it has no errors of types.
var (
	unknownFlag = regexp.MustCompile(`^flag provided but not defined: -+(.*)$`)
	noValue     = regexp.MustCompile(`^flag needs an argument: -+(.*)$`)
	badSwitch   = regexp.MustCompile(`^invalid boolean value (".*") for -([^:]*): `)
	badNumber   = regexp.MustCompile(`^invalid value (".*") for flag -([^:]*): `)
	badSyntax   = regexp.MustCompile(`^bad flag syntax: (.*)$`)
)

// flagTrouble says the same as the rest of perigee would.
func flagTrouble(err error, command string, set *flag.FlagSet) string {
	more := fmt.Sprintf("; perigee help %s tells more", command)
	found := func(pattern *regexp.Regexp) []string { return pattern.FindStringSubmatch(err.Error()) }
	if m := found(unknownFlag); m != nil {
		var known []string
		set.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
		if near := names.Nearest(m[1], known, 1); len(near) > 0 {
			return fmt.Sprintf("no flag --%s; did you mean --%s?", m[1], near[0])
		}
		return "no flag --" + m[1] + more
	}
	if m := found(noValue); m != nil {
		return "--" + m[1] + " needs a value" + more
	}
	if m := found(badSwitch); m != nil {
		return fmt.Sprintf("--%s takes no value, or true or false, and not %s", m[2], m[1]) + more
	}
	if m := found(badNumber); m != nil {
		return fmt.Sprintf("--%s takes a number, and not %s", m[2], m[1]) + more
	}
	if m := found(badSyntax); m != nil {
		return fmt.Sprintf("%q is no flag", strings.TrimSpace(m[1])) + more
	}
	return err.Error() + more
}

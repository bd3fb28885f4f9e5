package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"perigee/internal/lib/lazyregexp"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
)

// Config reports the problems and warnings of a configuration. loaded and err are from
// config.Inspect. borrowed are variables that are not set here and that the running daemon has.
func Config(loaded *config.Loaded, err error, borrowed []string) Result {
	if problems, isList := errors.AsType[*config.Problems](err); isList {
		return fail(NameConfig, configFix(problems.List[0], loaded), "%s", several(problems.List, problems.More))
	}
	if err != nil {
		return fail(NameConfig, "perigee config check", "%v", err)
	}
	warnings := slices.DeleteFunc(slices.Clone(loaded.Warnings), func(p config.Problem) bool {
		return strings.HasPrefix(p.Message, NameDataDir+": ") // which has a check of its own
	})
	if len(warnings) > 0 {
		return warn(NameConfig, configFix(warnings[0], loaded), "%s", several(warnings, 0))
	}
	where := cmp.Or(loaded.Path, "there is no file at "+loaded.Searched+", so defaults apply")
	var sources []string
	for _, u := range loaded.Environment {
		sources = append(sources, u.Source())
	}
	if len(sources) > 0 {
		where += ", with upstreams from " + strings.Join(sources, ", ")
	}
	if len(loaded.Placeholders) > 0 {
		where += "; passed over placeholders in " + strings.Join(loaded.Placeholders, ", ")
	}
	for _, name := range borrowed {
		where += "; " + name + " is not set in this shell, but the daemon has it"
	}
	return ok(NameConfig, "%s%s", where, soonExpired(loaded.Config, time.Now()))
}

// shownProblems is how many problems a detail has.
const shownProblems = 3

func several(list []config.Problem, more int) string {
	var lines []string
	for _, p := range list[:min(len(list), shownProblems)] {
		lines = append(lines, p.String())
	}
	text := strings.Join(lines, "; ")
	if more += len(list) - len(lines); more > 0 {
		text += fmt.Sprintf("; and %d more, see perigee config check", more)
	}
	return text
}

// Commands that problems suggest: export NAME=… for a variable that is not set, chmod for a file
// that other users can read, ollama serve for a server that does not answer.
var suggested = lazyregexp.New(`\b(ollama serve|export [A-Za-z_][A-Za-z0-9_]*=…|chmod (?:600|o=) \S.*)`)

// configFix returns the command for a problem: the one that the problem suggests, or else to edit
// the file or to unset the variable.
func configFix(p config.Problem, loaded *config.Loaded) string {
	for _, text := range []string{p.Hint, p.Message} {
		if found := suggested().FindString(text); found != "" {
			found, _, _ = strings.Cut(found, " in the shell")
			return found
		}
	}
	if name, isVariable := strings.CutPrefix(p.Source, "environment "); isVariable {
		return "unset " + name
	}
	path := p.Source
	if p.Line == 0 && loaded != nil && (path == "" || path == "default") {
		path = loaded.Path
	}
	switch {
	case path == "" || strings.HasPrefix(path, "flag "):
		return "perigee config init"
	case p.Line == 0 && p.Message == fs.ErrPermission.Error():
		return readable(absolute(path))
	}
	return edit(path, p.Line)
}

// readable returns the command that lets this user read a file.
func readable(path string) string {
	if info, err := os.Stat(path); err == nil && !datadir.Owned(info) {
		return `sudo chown "$(id -u)" ` + commandLine(path)
	}
	return commandLine("chmod", "u+r", path)
}

// expiresSoon is how long before its end a key is mentioned.
const expiresSoon = 7 * 24 * time.Hour

// soonExpired mentions client keys that will expire.
func soonExpired(cfg *config.Config, now time.Time) string {
	var names []string
	for _, k := range cfg.Keys {
		if !k.Expires.IsZero() && k.Expires.After(now) && k.Expires.Before(now.Add(expiresSoon)) {
			names = append(names, k.Name+" on "+k.Expires.UTC().Format(time.DateOnly))
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "; keys that expire soon: " + strings.Join(names, ", ")
}

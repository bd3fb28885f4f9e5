package config

import "regexp"

// Ways in which other programs and shells refer to environment variables. YAML replaces none of them.
var variable = regexp.MustCompile(`^(?:\$\{?|\$env:|%|os\.environ/|(?:process\.)?env\.|\{\{? *env[:.])([A-Za-z_][A-Za-z0-9_]*)(?:\}|%| *\}\})?$`)

// What examples have in place of a secret.
var placeholder = regexp.MustCompile(`(?i)^(?:<.*>|\[.*\]|(?:sk-|aiza)?[x*]{3,}|change[-_ ]?me|replace[-_ ]?me|placeholder|todo|insert[-_ ].*|` +
	`.*\byour?[-_ ](?:[a-z]+[-_ ]){0,3}(?:key|secret|token|password)(?:[-_ ]here)?|.*(?:\.\.\.|…))$`)

// warnAboutPlaceholder says so of a secret that is likely not meant as it is written. Text is what was written, value what it
// stands for.
func (l *loader) warnAboutPlaceholder(text, value, key string, origin Origin) {
	if name := variable.FindStringSubmatch(text); name != nil {
		l.warnAt(origin, "%s looks like a variable, which is not replaced here; write env:%s", key, name[1])
		return
	}
	if placeholder.MatchString(value) {
		l.warnAt(origin, "%s looks like a placeholder; write the secret itself, or env:NAME or file:PATH for where it is", key)
	}
}

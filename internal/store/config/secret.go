package config

import (
	"crypto/rand"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"unicode"

	"perigee"
	"perigee/internal/lib/lazyregexp"
)

const maxSecretFile = 64 << 10

// spareSecrets returns values for secrets that are missing and will not be used, by format of the
// field. Should one be used after all, the call fails. Formats that are not listed have none:
// without the URL of its database, perigee would use another one.
var spareSecrets = map[string]func() string{
	"":       rand.Text,
	"header": rand.Text,
	"proxy":  func() string { return "http://proxy.invalid" },
}

// resolveSecret returns the secret that a text is or refers to: env:NAME, file:PATH.
func (l *loader) resolveSecret(s setting, text string) (value string, ok bool) {
	l.shown[s.key] = shownSecret(text, s.field)
	value, problem := l.findSecret(s, text)
	spare := spareSecrets[s.field.format]
	switch {
	case problem.Message == "":
	case spare != nil && isReference(text) && l.spared(s.key):
		l.shown[s.key] = "[" + text + ", not set]"
		return spare(), true
	default:
		l.refuse(s.key, problem.Message, problem.Hint)
		return "", false
	}
	if s.field.format == "" {
		l.warnAboutPlaceholder(text, value, s.key)
	}
	if origin := l.Origins[s.key]; text != "" && origin.Line > 0 && l.shown[s.key] != text && !isReference(text) {
		l.literals = append(l.literals, s.key)
	}
	return value, true
}

// spared reports whether the value of a key will not be used.
func (l *loader) spared(key string) bool { return l.src.Spare != nil && l.src.Spare(key) }

// shownSecret returns the text that listings show for a secret: the reference, or the address of a
// proxy without user and password.
func shownSecret(text string, f *field) string {
	switch {
	case text == "":
		return ""
	case isReference(text):
		return "[" + text + "]"
	case f.format == "header" && CredentialIn(text) == "":
		return text
	case f.format == "proxy":
		if u, err := url.Parse(text); err == nil && u.User != nil {
			return u.Scheme + "://" + redacted + "@" + u.Host
		} else if err == nil {
			return text
		}
	}
	return redacted
}

const redacted = "[redacted]"

func isReference(text string) bool {
	return strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:")
}

// findSecret returns the secret, or a problem without its origin.
func (l *loader) findSecret(s setting, text string) (secret string, problem Problem) {
	fail := func(message, hint string) (string, Problem) { return "", Problem{Message: message, Hint: hint} }
	kind, name, hasColon := strings.Cut(text, ":")
	if !hasColon {
		kind = ""
	}
	what, hint := "the secret", ""
	switch kind {
	case "env":
		l.variables[name] = true
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return notVisible(r) || r == '=' }) {
			return fail("env: needs the name of an environment variable", "")
		}
		what, hint = "the environment variable "+name, "run export "+name+"=… in the shell that starts perigee, or use file:PATH"
		set := false
		if secret, set = l.src.Env(name); !set {
			return fail(what+" is not set", hint)
		}
	case "file":
		path, isCredential := l.src.expandCredential(name)
		if isCredential && path == "" {
			return fail("the environment variable "+credentialsVariable+" is not set", "it is set where systemd starts perigee with LoadCredential=")
		}
		path, known := l.src.expand(path)
		if path == "" || !known {
			return fail("file: needs the path of a file", "")
		}
		path = filepath.Clean(l.besideFile(path, l.Origins[s.key]))
		what = "secret file " + path
		content, err := l.readRegular(path, maxSecretFile)
		if err != nil {
			return fail("cannot read "+what+" ("+err.Error()+")", "")
		}
		if !isCredential { // the service manager controls access to credentials
			l.secretFiles = append(l.secretFiles, path)
		}
		secret = strings.TrimRight(string(content), "\r\n")
	default:
		secret = text
	}
	switch {
	case strings.ContainsFunc(secret, unicode.IsControl): // it could break out of a header
		return fail(what+" holds a line break or another control character", "")
	case secret == "" && isReference(text):
		return fail(what+" is empty", hint)
	}
	return secret, Problem{}
}

// credentialsVariable is the directory in which a service manager puts the credentials of a
// service.
const credentialsVariable = "CREDENTIALS_DIRECTORY"

// expandCredential replaces a leading $CREDENTIALS_DIRECTORY, by "" for the whole path if it is not
// set.
func (s Sources) expandCredential(path string) (expanded string, ok bool) {
	for _, prefix := range []string{"$" + credentialsVariable + "/", "${" + credentialsVariable + "}/"} {
		if name, ok := strings.CutPrefix(path, prefix); ok {
			if dir := s.lookup(credentialsVariable); dir != "" {
				return filepath.Join(dir, name), true
			}
			return "", true
		}
	}
	return path, false
}

// References to environment variables in other programs and shells. YAML does not replace them.
var variable = lazyregexp.New(`^(?:\$\{?|\$env:|%|os\.environ/|(?:process\.)?env\.|\{\{? *env[:.])` +
	`([A-Za-z_][A-Za-z0-9_]*)(?:\}|%| *\}\})?$`)

// Texts that examples have in place of a secret.
var placeholder = lazyregexp.New(`(?i)^(?:<.*>|\[.*\]|(?:sk-|aiza)?[x*]{3,}|change[-_ ]?me|replace[-_ ]?me|placeholder|todo|` +
	`insert[-_ ].*|` +
	`.*\byour?[-_ ](?:[a-z]+[-_ ]){0,3}(?:key|secret|token|password)(?:[-_ ]here)?|.*(?:\.\.\.|…))$`)

// warnAboutPlaceholder warns about a text, or the value that it refers to, that is probably not a
// secret.
func (l *loader) warnAboutPlaceholder(text, value, key string) {
	if name := variable().FindStringSubmatch(text); name != nil {
		l.warn(key, "%s looks like a variable, which is not replaced here; write env:%s", key, name[1])
	} else if placeholder().MatchString(value) {
		l.warn(key, "%s looks like a placeholder; write the secret itself, or env:NAME or file:PATH for where it is", key)
	}
}

// warnAboutReadableSecrets warns about files with secrets that other users can read.
func (l *loader) warnAboutReadableSecrets() {
	if mode := l.modeForOthers(l.Path); mode != 0 && len(l.literals) > 0 {
		l.warn("", "%s contains a secret (%s) and is readable by other users (mode %#o); use env:NAME or file:PATH, or run chmod 600 %s",
			l.Path, l.literals[0], mode, filepath.Clean(l.Path))
	}
	slices.Sort(l.secretFiles)
	for _, path := range slices.Compact(l.secretFiles) {
		if mode := l.modeForOthers(path); mode != 0 {
			l.warn("", "the secret file %[1]s is readable by other users (mode %#[2]o); run chmod 600 %[1]s", path, mode)
		}
	}
}

// modeForOthers returns the mode of a file if it permits users besides the owner anything, and 0
// otherwise.
func (l *loader) modeForOthers(path string) os.FileMode {
	info, err := os.Stat(path)
	if err != nil || l.src.ReadFile != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return 0
	}
	return info.Mode().Perm()
}

// minCredential is the length of the shortest header that counts as a credential: shorter ones are
// names of tenants.
const minCredential = 8

// NamedSecrets returns all secrets of a configuration by their keys ("keys[0].secret"); of a URL,
// the password.
func (c *Config) NamedSecrets() iter.Seq2[string, perigee.Secret] {
	return func(yield func(string, perigee.Secret) bool) {
		more := true
		walkSettings(c, func(s setting) bool {
			if s.value.Type() != reflect.TypeFor[perigee.Secret]() {
				return true
			}
			value := s.value.Interface().(perigee.Secret).Reveal()
			if s.field.format == "header" {
				value = CredentialIn(value)
			}
			if u, err := url.Parse(value); err == nil && u.Scheme != "" && u.Host != "" {
				value, _ = u.User.Password()
			}
			more = more && (value == "" || yield(s.key, perigee.NewSecret(value)))
			return true
		})
		for _, values := range c.Telemetry.Header() {
			for _, v := range values {
				credential := v[strings.LastIndex(v, " ")+1:] // without Bearer or Basic
				more = more && (len(credential) < minCredential || yield("telemetry.headers", perigee.NewSecret(credential)))
			}
		}
	}
}

// Secrets returns all secrets of a configuration; of a URL, the password.
func (c *Config) Secrets() (list []perigee.Secret) {
	for _, secret := range c.NamedSecrets() {
		list = append(list, secret)
	}
	return list
}

package config

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

const maxSecretFile = 64 << 10

// resolveSecret turns env:NAME and file:PATH into what they refer to; everything else is the secret itself.
func (l *loader) resolveSecret(text, key string, origin Origin, f field) (string, bool) {
	l.shown[key] = secretText(text, f)
	before := len(l.problems.List)
	value, ok := l.findSecret(text, key, origin, f)
	if ok && f.format == "" {
		l.warnAboutPlaceholder(text, value, key, origin)
	}
	if !l.spared(key) {
		return value, ok
	}
	stand, can := standIn(f)
	if !ok && can && isReference(text) {
		l.problems.List = l.problems.List[:before]
		delete(l.bad, key)
		l.shown[key] = "[" + text + ", not set]"
		return stand, true
	}
	return value, ok
}

// standIn is a value for a secret that is not there and will not be used. Should it be used all the same, it fails: it is a key
// that no client can present, or a proxy that cannot be reached. There is none for secrets whose absence would mean something.
func standIn(f field) (string, bool) {
	switch f.format {
	case "":
		return rand.Text(), true
	case "proxy":
		return "http://proxy.invalid", true
	}
	return "", false
}

const redacted = "[redacted]"

// secretText is what a listing shows of a secret: where it comes from.
func secretText(text string, f field) string {
	switch {
	case text == "":
		return ""
	case isReference(text):
		return "[" + text + "]"
	case f.format == "proxy":
		return proxyText(text)
	}
	return redacted
}

// isReference says whether a secret is written as the place where it is.
func isReference(text string) bool {
	return strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:")
}

func (l *loader) findSecret(text, key string, origin Origin, f field) (string, bool) {
	if name, ok := strings.CutPrefix(text, "env:"); ok {
		return l.secretFromEnv(name, key, origin)
	}
	if path, ok := strings.CutPrefix(text, "file:"); ok {
		return l.secretFromFile(path, key, origin)
	}
	if hasControl(text) {
		l.refuse(origin, key, "the secret holds a line break or another control character", "")
		return "", false
	}
	if text != "" && origin.Line > 0 && secretText(text, f) != text {
		l.literals = append(l.literals, key)
	}
	return text, true
}

func (l *loader) secretFromEnv(name, key string, origin Origin) (string, bool) {
	l.envNames[name] = true
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return notVisible(r) || r == '=' }) {
		l.refuse(origin, key, "env: needs the name of an environment variable", "")
		return "", false
	}
	value, ok := l.src.Env(name)
	switch {
	case !ok:
		l.refuse(origin, key, fmt.Sprintf("the environment variable %s is not set", name), "set it: export "+name+"=…")
		return "", false
	case value == "":
		l.refuse(origin, key, fmt.Sprintf("the environment variable %s is empty", name), "set it: export "+name+"=…")
		return "", false
	case hasControl(value):
		l.refuse(origin, key, fmt.Sprintf("the environment variable %s holds a line break or another control character", name), "")
		return "", false
	}
	return value, true
}

func (l *loader) secretFromFile(path, key string, origin Origin) (string, bool) {
	path, held, err := l.src.credential(path)
	if err != nil {
		l.refuse(origin, key, err.Error(), "it is set where systemd starts perigee with LoadCredential=")
		return "", false
	}
	path, known := l.src.expand(path)
	if path == "" || !known {
		l.refuse(origin, key, "file: needs the path of a file", "")
		return "", false
	}
	path = l.besideFile(path, origin)
	if info, err := os.Stat(path); l.src.ReadFile == nil && err == nil && !info.Mode().IsRegular() {
		l.refuse(origin, key, fmt.Sprintf("secret file %s is not an ordinary file", filepath.Clean(path)), "")
		return "", false
	}
	if !held { // who may read a credential is the service manager's business
		l.secretFiles = append(l.secretFiles, path)
	}
	content, err := l.read(path, maxSecretFile)
	if err != nil {
		message := reason(err)
		if errors.Is(err, fs.ErrNotExist) {
			message = "does not exist"
		}
		l.refuse(origin, key, fmt.Sprintf("secret file %s: %s", filepath.Clean(path), message), "")
		return "", false
	}
	value := strings.TrimRight(string(content), "\r\n")
	switch {
	case value == "":
		l.refuse(origin, key, fmt.Sprintf("secret file %s is empty", filepath.Clean(path)), "")
		return "", false
	case hasControl(value):
		l.refuse(origin, key, fmt.Sprintf("secret file %s holds more than one line, or a control character", filepath.Clean(path)), "")
		return "", false
	}
	return value, true
}

// credentialsVariable is where a service manager says which directory has the credentials of a service.
const credentialsVariable = "CREDENTIALS_DIRECTORY"

// credential replaces a leading $CREDENTIALS_DIRECTORY, and reports whether there was one.
func (s Sources) credential(path string) (expanded string, ok bool, err error) {
	name, ok := strings.CutPrefix(path, "$"+credentialsVariable+"/")
	if !ok {
		name, ok = strings.CutPrefix(path, "${"+credentialsVariable+"}/")
	}
	if !ok {
		return path, false, nil
	}
	dir := s.lookup(credentialsVariable)
	if dir == "" {
		return "", true, fmt.Errorf("the environment variable %s is not set", credentialsVariable)
	}
	return filepath.Join(dir, name), true, nil
}

// hasControl finds what could break out of a header.
func hasControl(text string) bool { return strings.ContainsFunc(text, unicode.IsControl) }

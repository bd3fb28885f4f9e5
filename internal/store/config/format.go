package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"perigee/internal/lib/lazyregexp"
	"perigee/internal/lib/netguard"
	"perigee/internal/store/vault"
)

// filePrefix is the beginning of a text that refers to a file.
const filePrefix = "file:"

// maxName is the longest name of a key or an upstream in bytes: names are in headers and tables.
const maxName = 100

// formats are the checks of formats ("url", "listen"). A check describes the valid texts if text is
// invalid, and returns "" otherwise. A format without a check accepts every text.
var formats = map[string]func(text string) string{
	"listen": checkListen, "url": checkURL, "proxy": checkProxy, "origin": checkOrigin, "host": checkHost, "postgres": checkPostgres,
	"name": checkName, "token": checkToken, "glob": checkGlob, "path": checkPath, "program": checkPath, "email": checkEmail,
	"headers": checkHeaders, "member": checkMember, "location": CheckLocation, "project": CheckProject, "credentials": checkCredentials,
	"hosts": func(text string) string {
		if _, err := netguard.ParseHosts([]string{text}); err != nil {
			return "expected a host such as api.example.org or *.example.org (" + errors.Unwrap(err).Error() + ")"
		}
		return ""
	},
	"argument": func(text string) string {
		if strings.ContainsRune(text, 0) {
			return "expected text without NUL characters"
		}
		return ""
	},
	"dir": func(text string) string {
		if text == "" {
			return "expected a path"
		}
		return checkPath(text)
	},
	"header": func(text string) string {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			return "expected printable ASCII text, since it goes into a header"
		}
		return ""
	},
	"seal": func(text string) string {
		if text != "" && !vault.IsKey(text) {
			return "expected 32 bytes in base64, as from openssl rand -base64 32, or what is in a seal.key file"
		}
		return ""
	},
}

// notVisible reports whether a character is white space or a control character.
func notVisible(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

func checkToken(text string) string {
	if strings.ContainsFunc(text, notVisible) {
		return "expected a name without spaces"
	}
	return ""
}

var (
	location = lazyregexp.New(`^[a-z0-9][a-z0-9-]*$`)
	project  = lazyregexp.New(`^([a-z0-9-]+(\.[a-z0-9-]+)+:)?[a-z0-9][a-z0-9_-]*$`)
)

// CheckLocation returns why a text cannot be a location of Google Cloud, or "". It is part of a host.
func CheckLocation(text string) string {
	if text != "" && !location().MatchString(text) {
		return "expected a location such as global or europe-west4: lower-case letters, digits and dashes"
	}
	return ""
}

// CheckProject returns why a text cannot be the ID of a Google Cloud project, or "". It is part of a path.
func CheckProject(text string) string {
	if text != "" && !project().MatchString(text) {
		return "expected the ID of a project such as my-project or example.com:my-project, in lower case"
	}
	return ""
}

func checkCredentials(text string) string {
	path, isFile := strings.CutPrefix(text, filePrefix)
	switch {
	case text == "auto", text == "metadata":
		return ""
	case !isFile || path == "":
		return "expected auto, metadata, or file: and a path"
	}
	return checkPath(path)
}

func checkName(text string) string {
	switch {
	case text == "":
		return "expected a name"
	case len(text) > maxName:
		return fmt.Sprintf("expected a name of at most %d characters", maxName)
	}
	return checkToken(text)
}

func checkPath(text string) string {
	switch {
	case strings.HasPrefix(text, "~") && text != "~" && !strings.HasPrefix(text, "~/"):
		return "expected a path without ~user"
	case strings.ContainsRune(text, 0):
		return "expected a path"
	}
	return ""
}

func checkEmail(text string) string {
	user, host, _ := strings.Cut(text, "@")
	if user == "" || host == "" || strings.Contains(host, "@") || strings.ContainsFunc(text, notVisible) {
		return "expected an address such as ada@example.com"
	}
	return ""
}

// isVariable reports whether a text can be the name of an environment variable.
func isVariable(text string) bool {
	isOther := func(r rune) bool {
		return r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}
	return text != "" && !strings.ContainsFunc(text, isOther) && (text[0] < '0' || text[0] > '9')
}

func checkGlob(text string) string {
	switch {
	case text == "":
		return "expected a pattern such as gemini-*"
	case strings.ContainsFunc(text, notVisible):
		return "expected a pattern without spaces"
	case strings.ContainsAny(text, `[]{}\`):
		return `expected a pattern in which only * and ? are special, without [ ] { } \`
	}
	return ""
}

func checkListen(text string) string {
	host, port, err := net.SplitHostPort(text)
	_, notAddress := netip.ParseAddr(host)
	_, notPort := strconv.ParseUint(port, 10, 16)
	switch {
	case err == nil && notPort != nil:
		return "expected a port from 0 to 65535 after the last colon"
	case err != nil, strings.Contains(host, ":") && notAddress != nil,
		strings.ContainsAny(host, "/@?#"), strings.ContainsFunc(host, notVisible):
		return "expected an address such as 127.0.0.1:8741"
	}
	return ""
}

func checkURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || strings.ContainsFunc(text, notVisible):
		return "expected a URL such as https://example.com"
	case u.Scheme != "http" && u.Scheme != "https":
		return "expected a URL that begins with https://"
	case !isHost(u.Hostname()):
		return "expected a host name or IP address after ://, as in https://example.com"
	case u.User != nil:
		return "expected a URL without user and password"
	case hasQuery(u, text):
		return "expected a URL without ? and #"
	case u.Scheme == "http" && !netguard.IsLoopback(u.Hostname()):
		return "expected https://; http:// is allowed only for loopback addresses (127.0.0.1, ::1, localhost)"
	}
	return checkPort(u)
}

// hasQuery reports whether a URL has a query or a fragment, even an empty one.
func hasQuery(u *url.URL, text string) bool {
	return u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#")
}

// checkPort refuses ports that do not exist, and a colon without a port.
func checkPort(u *url.URL) string {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); (u.Port() != "" || strings.HasSuffix(u.Host, ":")) && (err != nil || n == 0) {
		return "expected a port from 1 to 65535 after the colon"
	}
	return ""
}

// isHost reports whether a text can be a host name or an address, in contrast to placeholders:
// https://…, https://<host>.
func isHost(host string) bool {
	if strings.Contains(host, ":") {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	notInName := func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.Nd) && r != '-' && r != '_' }
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		if label == "" || strings.ContainsFunc(label, notInName) {
			return false
		}
	}
	return true
}

func checkProxy(text string) string {
	u, err := url.Parse(text)
	switch {
	case text == "" || text == "none": // connections without a proxy
		return ""
	case err != nil || u.Host == "" || strings.ContainsFunc(text, notVisible) || !isHost(u.Hostname()):
		return "expected a URL such as http://proxy.example.com:3128 or socks5://127.0.0.1:1080, or none"
	case !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme):
		return "expected a URL that begins with http://, https:// or socks5://, or none"
	case strings.Trim(u.Path, "/") != "" || hasQuery(u, text):
		return "expected a URL without a path, ? and #"
	}
	return checkPort(u)
}

// checkOrigin accepts the values that browsers send as Origin, including the origins of apps (app,
// vscode-webview, chrome-extension).
func checkOrigin(text string) string {
	u, err := url.Parse(text)
	switch {
	case text == "null":
		return ""
	case strings.Contains(text, "*"):
		return "expected one origin, without *"
	case err != nil || u.Scheme == "" || u.Host == "" || strings.ContainsFunc(text, notVisible):
		return "expected an origin such as http://localhost:3000 or app://obsidian.md"
	case u.User != nil || u.Path != "" || hasQuery(u, text):
		return "expected an origin, which ends after the host or port, without a /"
	case u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443":
		return fmt.Sprintf("expected an origin without :%s, which browsers leave out", u.Port())
	case !isASCII(u.Host):
		return "expected an origin as browsers send it, with the host as xn--…"
	}
	return checkPort(u)
}

// checkHost accepts the values of a Host header without port.
func checkHost(text string) string {
	switch {
	case strings.Contains(text, ":") || !isHost(text):
		return "expected a host name such as host.docker.internal, without scheme and port"
	case !isASCII(text):
		return "expected the name as clients send it, as xn--…"
	}
	return ""
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

func checkPostgres(text string) string {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return ""
	case err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql":
		return "expected postgres://user:password@host/database, or nothing for SQLite in data_dir"
	case strings.Contains(u.Host, ","): // the driver checks the ports of several hosts
		return ""
	}
	return checkPort(u)
}

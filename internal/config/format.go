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

	"perigee/internal/names"
	"perigee/internal/seal"
)

// maxName is how long the name of a key or an upstream may be: it goes into headers and tables.
const maxName = 100

// checkFormat says what is wrong with a text that has to be more than any text.
func checkFormat(format, text string) error {
	switch format {
	case "listen":
		return checkListen(text)
	case "url":
		return checkURL(text)
	case "postgres":
		return checkPostgres(text)
	case "glob":
		return checkGlob(text)
	case "proxy":
		return checkProxy(text)
	case "origin":
		return checkOrigin(text)
	case "host":
		return checkHost(text)
	case "seal":
		return checkSealKey(text)
	case "name", "token":
		if strings.ContainsFunc(text, notVisible) {
			return errors.New("expected a name without spaces")
		}
		if format == "name" && text == "" {
			return errors.New("expected a name")
		}
		if format == "name" && len(text) > maxName {
			return fmt.Errorf("expected a name of at most %d characters", maxName)
		}
	case "header":
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			return errors.New("expected printable ASCII text, since it goes into a header")
		}
	case "path", "dir":
		if strings.HasPrefix(text, "~") && text != "~" && !strings.HasPrefix(text, "~/") {
			return errors.New("only ~/ stands for a home directory")
		}
		if strings.ContainsRune(text, 0) || format == "dir" && text == "" {
			return errors.New("expected a path")
		}
	}
	return nil
}

func notVisible(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

func checkListen(text string) error {
	wrong := errors.New("expected an address such as 127.0.0.1:8741")
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return wrong
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("expected a port from 0 to 65535 after the last colon")
	}
	if strings.Contains(host, ":") {
		if _, err := netip.ParseAddr(host); err != nil {
			return wrong
		}
	}
	if strings.ContainsFunc(host, func(r rune) bool { return notVisible(r) || strings.ContainsRune("/@?#", r) }) {
		return wrong
	}
	return nil
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || strings.ContainsFunc(text, notVisible):
		return errors.New("expected an address such as https://example.com")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("expected an address that begins with https://")
	case !isHost(u.Hostname()):
		return errors.New("expected the name or the address of a machine after ://, as in https://example.com")
	case u.User != nil:
		return errors.New("expected an address without a user or password in it")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(text, "#"):
		return errors.New("expected an address without ? and #")
	case u.Scheme == "http" && !names.IsLoopback(u.Hostname()):
		return errors.New("expected https://, since http:// is only for this machine (127.0.0.1, ::1, localhost)")
	}
	return checkPort(u)
}

// checkPort takes an address without a port, and one with a port that exists. A colon with nothing behind it is the rest of
// an address that somebody did not finish.
func checkPort(u *url.URL) error {
	if u.Port() == "" && !strings.HasSuffix(u.Host, ":") {
		return nil
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
		return errors.New("expected a port from 1 to 65535 after the colon")
	}
	return nil
}

// isHost says whether a text without port could be the name or the address of a machine, rather than the place where one
// belongs: https://…, https://<host>.
func isHost(host string) bool {
	if strings.Contains(host, ":") {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		if label == "" || strings.ContainsFunc(label, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.Nd) && r != '-' && r != '_' }) {
			return false
		}
	}
	return true
}

// noProxy is the word for connections without a proxy.
const noProxy = "none"

func checkProxy(text string) error {
	if text == "" || text == noProxy {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || strings.ContainsFunc(text, notVisible) || !isHost(u.Hostname()):
		return errors.New("expected an address such as http://proxy.example.com:3128 or socks5://127.0.0.1:1080, or none")
	case !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme):
		return errors.New("expected an address that begins with http://, https:// or socks5://, or none")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return errors.New("expected an address without a path, ? and #")
	}
	return checkPort(u)
}

// proxyText is the address of a proxy without user and password.
func proxyText(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return redacted
	}
	if u.User == nil {
		return text
	}
	return u.Scheme + "://" + redacted + "@" + u.Host
}

// checkOrigin takes what browsers send as Origin. Schemes of apps (app, vscode-webview, chrome-extension) are as good as http.
func checkOrigin(text string) error {
	if text == "null" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case strings.Contains(text, "*"):
		return errors.New("expected one origin, without *")
	case err != nil || u.Scheme == "" || u.Host == "" || strings.ContainsFunc(text, notVisible):
		return errors.New("expected an origin such as http://localhost:3000 or app://obsidian.md")
	case u.User != nil || u.Path != "" || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return errors.New("expected an origin, which ends with the host or port and has no / behind it")
	case u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443":
		return fmt.Errorf("expected an origin without :%s, which browsers leave out", u.Port())
	case !isASCII(u.Host):
		return errors.New("expected an origin as browsers send it, with the host as xn--…")
	}
	return checkPort(u)
}

// checkHost takes what stands in Host without its port.
func checkHost(text string) error {
	if strings.Contains(text, ":") || !isHost(text) {
		return errors.New("expected the name of a machine such as host.docker.internal, without scheme and port")
	}
	if !isASCII(text) {
		return errors.New("expected the name as clients send it, as xn--…")
	}
	return nil
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

func checkPostgres(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return errors.New("expected postgres://user:password@host/database, or nothing for SQLite in data_dir")
	}
	if !strings.Contains(u.Host, ",") { // several machines are left to the driver
		return checkPort(u)
	}
	return nil
}

func checkSealKey(text string) error {
	if text != "" && !seal.IsKey(text) {
		return errors.New("expected 32 bytes in base64, as from openssl rand -base64 32, or what is in a seal.key file")
	}
	return nil
}

func checkGlob(text string) error {
	switch {
	case text == "":
		return errors.New("expected a pattern such as gemini-*")
	case strings.ContainsFunc(text, notVisible):
		return errors.New("expected a pattern without spaces")
	case strings.ContainsAny(text, `[]{}\`):
		return errors.New(`expected a pattern in which only * and ? are special, without [ ] { } \`)
	}
	return nil
}

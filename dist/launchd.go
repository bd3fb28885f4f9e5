package dist

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"perigee/internal/lib/lazyregexp"
)

const launchdLabel = "perigee"

func newLaunchd(h *Host, o Options) (*Manager, error) {
	home, domain, user := h.Home, fmt.Sprintf("gui/%d", h.UID), ""
	file := path.Join(home, "Library/LaunchAgents/perigee.plist")
	if o.System {
		if h.SudoUser == "" {
			return nil, errors.New("a service of the system runs as the user that installs it with sudo; run it with sudo from your account")
		}
		home, domain, user = h.SudoHome, "system", h.SudoUser
		file = "/Library/LaunchDaemons/perigee.plist"
	}
	if home == "" {
		return nil, errors.New("HOME is not set; set it to your home directory")
	}
	log := path.Join(home, "Library/Logs/perigee.log")
	target := domain + "/" + launchdLabel
	bootstrap := []string{"launchctl", "bootstrap", domain, file}
	bootout := []string{"launchctl", "bootout", target}
	m := &Manager{host: h, unit: target, logs: "tail " + log,
		check:   []string{"launchctl", "version"},
		reach:   "run it in a session of your account",
		enable:  [][]string{{"launchctl", "enable", target}},
		start:   [][]string{bootstrap},
		restart: [][]string{bootout, bootstrap},
		stop:    [][]string{bootout},
		Files:   []File{{Path: file, Content: o.plist(home, user, log), Mode: 0o644}},
	}
	if !o.System {
		m.variables = h.EnvironmentFile()
		m.dirs = []string{path.Dir(file), path.Dir(m.variables)}
	}
	m.state = func(ctx context.Context) State {
		s := State{Installed: h.exists(file), Enabled: h.exists(file), Detail: "not loaded"}
		if out, err := h.Run(ctx, "launchctl", "print", target); err == nil {
			s.Loaded = true
			s.Detail = found(out, `(?m)^\s*state = (.+)$`)
			s.PID, _ = strconv.Atoi(found(out, `(?m)^\s*pid = (\d+)$`)) // 0 if it does not run
			s.Running = s.PID != 0
		}
		return s
	}
	return m, nil
}

func found(text, pattern string) string {
	if parts := regexp.MustCompile(pattern).FindStringSubmatch(text); parts != nil {
		return strings.TrimSpace(parts[1])
	}
	return ""
}

var (
	plistProgram   = lazyregexp.New(`(?s)(<key>ProgramArguments</key>\n\t<array>\n).*?(\t</array>)`)
	plistVariables = lazyregexp.New(`(?s)\t<key>EnvironmentVariables</key>\n\t<dict>\n\t</dict>\n`)
)

// plist fills the file of launchd. The shell reads the variables of the user, which systemd reads
// itself.
func (o Options) plist(home, user, log string) string {
	const start = `f=$1; shift; if [ -r "$f" ]; then set -a; . "$f"; set +a; fi; exec "$@"`
	words := []string{"/bin/sh", "-c", start, "perigee", path.Join(home, ".config/perigee/environment"), o.Program, "serve"}
	if o.Config != "" {
		words = append(words, "--config", o.Config)
	}
	var arguments, variables strings.Builder
	for _, word := range words {
		fmt.Fprintf(&arguments, "\t\t<string>%s</string>\n", xmlText(word))
	}
	set := o.Variables
	if user != "" {
		set = append([]Variable{{"HOME", home}}, set...)
	}
	if len(set) > 0 {
		variables.WriteString("\t<key>EnvironmentVariables</key>\n\t<dict>\n")
		for _, v := range set {
			fmt.Fprintf(&variables, "\t\t<key>%s</key>\n\t\t<string>%s</string>\n", xmlText(v.Name), xmlText(v.Value))
		}
		variables.WriteString("\t</dict>\n")
	}
	if user != "" {
		fmt.Fprintf(&variables, "\t<key>UserName</key>\n\t<string>%s</string>\n", xmlText(user))
	}
	text := read("launchd/perigee.plist")
	parts := plistProgram().FindStringSubmatch(text)
	text = strings.Replace(text, parts[0], parts[1]+arguments.String()+parts[2], 1)
	text = plistVariables().ReplaceAllLiteralString(text, variables.String())
	return strings.Replace(text, "/dev/null", xmlText(log), 1)
}

func xmlText(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}

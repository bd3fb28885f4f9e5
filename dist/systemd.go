package dist

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"perigee/internal/lib/lazyregexp"
)

const (
	unitName   = "perigee.service"
	socketName = "perigee.socket"

	// SystemConfig and SystemData are the files of the service of the system on Linux.
	SystemConfig = "/etc/perigee/config.yaml"
	SystemData   = "/var/lib/perigee"
)

func newSystemd(h *Host, o Options) (*Manager, error) {
	if o.System {
		return newSystemUnit(h, o)
	}
	if h.Home == "" {
		return nil, errors.New("HOME is not set; set it to your home directory")
	}
	configHome := h.ConfigHome
	if configHome == "" {
		configHome = path.Join(h.Home, ".config")
	}
	dir := path.Join(configHome, "systemd/user")
	text := o.fill(read("user/" + unitName))
	text = strings.ReplaceAll(text, "%h/.config/perigee/environment", unitPath(path.Join(configHome, "perigee/environment")))
	ctl := func(words ...string) []string { return append([]string{"systemctl", "--user"}, words...) }
	m := &Manager{host: h, unit: unitName, logs: "journalctl --user -u perigee",
		check:   ctl("show", "--property=Version"),
		enable:  [][]string{ctl("daemon-reload"), ctl("enable", unitName)},
		start:   [][]string{ctl("start", unitName)},
		restart: [][]string{ctl("restart", unitName)},
		stop:    [][]string{ctl("stop", unitName)},
		disable: [][]string{ctl("disable", unitName)},
		reach:   "log in as this user (not with su or sudo), or run loginctl enable-linger and export XDG_RUNTIME_DIR=/run/user/$(id -u)",
		after:   [][]string{ctl("daemon-reload")},
		dirs:    []string{path.Join(dir, "default.target.wants"), dir, path.Dir(dir), path.Join(configHome, "perigee"), configHome},

		variables: h.EnvironmentFile(),

		Files: []File{{Path: path.Join(dir, unitName), Content: text, Mode: 0o644}},
	}
	if m.unusable = o.unfit(configHome); !path.IsAbs(configHome) {
		m.unusable = fmt.Errorf("XDG_CONFIG_HOME is %q; set it to an absolute path, or unset it", configHome)
	}
	if h.ConfigHome != "" {
		m.doubt = "; if this is about a unit that does not exist, systemd does not know XDG_CONFIG_HOME (systemctl --user show-environment): unset it, or set it for the whole session"
	}
	m.useUnit("/etc/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user")
	m.state = systemdState(h, ctl)
	return m, nil
}

func newSystemUnit(h *Host, o Options) (*Manager, error) {
	ctl := func(words ...string) []string { return append([]string{"systemctl"}, words...) }
	const dir = "/etc/systemd/system"
	if o.Config == "" {
		o.Config = SystemConfig
	}
	m := &Manager{host: h, unit: unitName, logs: "journalctl -u perigee",
		check:   ctl("show", "--property=Version"),
		prepare: [][]string{{"systemd-sysusers", "--inline", strings.TrimSpace(read("perigee.sysusers"))}},
		enable:  [][]string{ctl("daemon-reload"), ctl("enable", socketName, unitName)},
		start:   [][]string{ctl("start", socketName, unitName)},
		restart: [][]string{ctl("restart", socketName, unitName)},
		stop:    [][]string{ctl("stop", unitName, socketName)},
		disable: [][]string{ctl("disable", unitName, socketName)},
		reach:   "this system may have no systemd, as in a container; run perigee serve there instead",
		after:   [][]string{ctl("daemon-reload")},
		Files: []File{
			{Path: path.Join(dir, unitName), Content: o.fill(read(unitName)), Mode: 0o644},
			{Path: path.Join(dir, socketName), Content: read(socketName), Mode: 0o644},
		},
	}
	m.unusable = o.unfit("")
	// Directories that ProtectHome and PrivateTmp hide from the service.
	for _, hidden := range []string{"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"} {
		if strings.HasPrefix(o.Program, hidden) {
			m.unusable = fmt.Errorf("a service of the system cannot see %s; copy it first (install -m 755 %s /usr/local/bin/perigee), and run /usr/local/bin/perigee service install --system",
				o.Program, unitWord(o.Program))
		}
	}
	m.useUnit("/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
	if o.Config == SystemConfig && m.Packaged == "" {
		m.Files = append(m.Files, File{Path: SystemConfig, Content: read("config.yaml"), Mode: 0o644, Once: true})
		m.dirs = append(m.dirs, path.Dir(SystemConfig))
	}
	m.state = systemdState(h, ctl)
	return m, nil
}

// useUnit uses the unit of a package in one of the directories, and does not write another one that
// would hide it.
func (m *Manager) useUnit(dirs ...string) {
	if m.host.exists(m.Files[0].Path) {
		return // it hides that of a package already
	}
	for _, dir := range dirs {
		if file := path.Join(dir, unitName); m.host.exists(file) {
			m.Packaged, m.Files = file, nil
			return
		}
	}
}

// unfit returns an error for options that no unit can have. configHome is empty for a service of the
// system.
func (o Options) unfit(configHome string) error {
	if strings.ContainsAny(o.Program, `"'\`) {
		return fmt.Errorf("systemd cannot start %s: its path has quotes or a backslash; move the program", o.Program)
	}
	for _, text := range append([]string{o.Program, o.Config, configHome}, values(o.Variables)...) {
		if strings.ContainsFunc(text, unicode.IsControl) || !utf8.ValidString(text) {
			return fmt.Errorf("a unit cannot have %q: it has a control character or is not UTF-8; rename it", text)
		}
	}
	return nil
}

func values(variables []Variable) (list []string) {
	for _, v := range variables {
		list = append(list, v.Value)
	}
	return list
}

var execStart = lazyregexp.New(`(?m)^ExecStart=.*$`)

// fill puts the program, its arguments and its variables into a unit.
func (o Options) fill(unit string) string {
	line := "ExecStart=" + strings.ReplaceAll(unitWord(o.Program), "$$", "$") + " serve" // systemd replaces variables in arguments alone
	if o.Config != "" {
		line += " --config " + unitWord(o.Config)
	}
	for _, v := range o.Variables {
		line += "\nEnvironment=" + strings.ReplaceAll(unitQuote(v.Name+"="+v.Value), "$$", "$")
	}
	return execStart().ReplaceAllLiteralString(unit, line)
}

var plainWord = lazyregexp.New(`^[A-Za-z0-9/_.+@=:,-]+$`)

// unitWord returns a word of a command line in a unit.
func unitWord(word string) string {
	if plainWord().MatchString(word) {
		return word
	}
	return unitQuote(word)
}

func unitQuote(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`, `$`, `$$`).Replace(word) + `"`
}

// unitPath returns a path that is the whole value of a setting.
func unitPath(file string) string { return strings.ReplaceAll(file, "%", "%%") }

func systemdState(h *Host, ctl func(...string) []string) func(ctx context.Context) State {
	return func(ctx context.Context) (s State) {
		const properties = "LoadState,ActiveState,SubState,MainPID,ActiveEnterTimestamp,UnitFileState"
		out, err := h.Run(ctx, ctl("show", unitName, "--timestamp=unix", "--property="+properties)...)
		if err != nil {
			s.Detail = "unknown"
			return s
		}
		values := map[string]string{}
		for line := range strings.SplitSeq(out, "\n") {
			name, value, _ := strings.Cut(line, "=")
			values[name] = value
		}
		s.Installed = values["LoadState"] == "loaded"
		s.Loaded = s.Installed
		s.Enabled = values["UnitFileState"] == "enabled"
		s.Running = values["ActiveState"] == "active" || values["ActiveState"] == "reloading"
		s.PID, _ = strconv.Atoi(values["MainPID"]) // 0 if it does not run
		if s.Detail = values["ActiveState"]; values["SubState"] != "" && values["SubState"] != s.Detail {
			s.Detail += " (" + values["SubState"] + ")"
		}
		if at, err := strconv.ParseInt(strings.TrimPrefix(values["ActiveEnterTimestamp"], "@"), 10, 64); err == nil && s.Running {
			s.Since = time.Unix(at, 0)
		}
		return s
	}
}

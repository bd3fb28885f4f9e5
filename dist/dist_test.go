package dist

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expected files and commands")

// A recorder runs no command. It answers those that ask for a state, and fails those that contain
// fails.
type recorder struct {
	lines   []string
	answers map[string]string // by the beginning of a command
	fails   string
}

func (r *recorder) run(_ context.Context, command ...string) (string, error) {
	line := strings.Join(command, " ")
	for beginning, answer := range r.answers {
		if strings.HasPrefix(line, beginning) {
			return answer, nil
		}
	}
	if strings.Contains(line, "print") || strings.Contains(line, "queryex") || strings.Contains(line, "show") || r.fails != "" && strings.Contains(line, r.fails) {
		return "", errors.New(line + ": failed")
	}
	r.lines = append(r.lines, line)
	return "", nil
}

// hosts are the systems, with their files below a directory of the test.
var hosts = []struct {
	name    string
	host    Host
	options Options
}{
	{"linux-user", Host{OS: "linux", Home: "/home/ada lovelace", UID: 1000},
		Options{Program: "/home/ada lovelace/bin/perigee", Variables: []Variable{{"PERIGEE_DATA_DIR", `/srv/50%/"a"`}}}},
	{"linux-system", Host{OS: "linux", Home: "/root"}, Options{System: true, Program: "/usr/local/bin/perigee"}},
	{"darwin-user", Host{OS: "darwin", Home: "/Users/ada", UID: 501},
		Options{Program: "/opt/homebrew/bin/perigee", Config: "/Users/ada/a & b.yaml", Variables: []Variable{{"PERIGEE_DATA_DIR", "/Users/ada/data"}}}},
	{"darwin-system", Host{OS: "darwin", Home: "/var/root", SudoUser: "ada", SudoHome: "/Users/ada"},
		Options{System: true, Program: "/usr/local/bin/perigee"}},
	{"windows-system", Host{OS: "windows", Data: `\ProgramData`, UID: -1}, Options{System: true, Program: `C:\Program Files\perigee\perigee.exe`}},
}

// rig returns the manager of a host with a recorder, and the lines that are reported.
func rig(t *testing.T, i int, r *recorder) (m *Manager, root string, said *[]string) {
	t.Helper()
	root, said = t.TempDir(), new([]string)
	host := hosts[i].host
	host.Root, host.Run = root+"/", r.run
	host.Report = func(format string, args ...any) { *said = append(*said, fmt.Sprintf(format, args...)) }
	m, err := NewManager(&host, hosts[i].options)
	if err != nil {
		t.Fatal(err)
	}
	return m, root, said
}

// TestServices holds the files and the commands of each system against testdata.
func TestServices(t *testing.T) {
	for i, h := range hosts {
		t.Run(h.name, func(t *testing.T) {
			r := &recorder{}
			m, root, said := rig(t, i, r)
			if changed, err := m.Install(t.Context()); err != nil || !changed {
				t.Fatal(changed, err)
			}
			var b strings.Builder
			fmt.Fprintf(&b, "%s\n", strings.Join(*said, "\n"))
			for _, f := range m.Files {
				text, err := os.ReadFile(m.host.Root + f.Path)
				if err != nil {
					t.Fatal(err)
				}
				if !f.Once && string(text) != marked(f.Content) {
					t.Errorf("%s is not what was planned", f.Path)
				}
				fmt.Fprintf(&b, "-- %s --\n%s", f.Path, text)
			}
			r.answers = loaded
			*said = nil
			if changed, err := m.Remove(t.Context()); err != nil || !changed {
				t.Fatal(changed, err)
			}
			fmt.Fprintf(&b, "-- remove --\n%s\n", strings.Join(*said, "\n"))
			for _, f := range m.Files {
				if m.host.exists(f.Path) {
					t.Errorf("remove left %s in %s", f.Path, root)
				}
			}
			path := filepath.Join("testdata", h.name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil || string(want) != b.String() {
				t.Errorf("%s: %v; got\n%s", path, err, b.String())
			}
		})
	}
}

// loaded are the answers of service managers with a service that runs.
var loaded = map[string]string{
	"systemctl --user show perigee.service": "LoadState=loaded\nActiveState=active\nSubState=running\nMainPID=42\nActiveEnterTimestamp=@1700000000\nUnitFileState=enabled",
	"systemctl show perigee.service":        "LoadState=loaded\nActiveState=active\nSubState=running\nMainPID=42\nActiveEnterTimestamp=@1700000000\nUnitFileState=enabled",
	"launchctl print":                       "perigee = {\n\tstate = running\n\tpid = 42\n}",
	"sc.exe queryex":                        "        STATE              : 4  RUNNING\n        PID                : 42",
	"sc.exe qc":                             `        BINARY_PATH_NAME   : "C:\Program Files\perigee\perigee.exe" serve --config "\ProgramData\perigee\config.yaml"`,
}

// A second install changes nothing, and one after an edit keeps the edited file.
func TestInstallIsRepeatable(t *testing.T) {
	for i, h := range hosts {
		t.Run(h.name, func(t *testing.T) {
			r := &recorder{}
			m, _, said := rig(t, i, r)
			if _, err := m.Install(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.answers, r.lines = loaded, nil
			if s := m.State(t.Context()); !s.Running || !s.Enabled || !s.Installed || s.PID != 42 {
				t.Errorf("the state is %+v", s)
			}
			if changed, err := m.Install(t.Context()); err != nil || changed || len(r.lines) > 0 {
				t.Errorf("the second install: %v, %v, %q", changed, err, r.lines)
			}
			path := m.host.Root + m.Files[0].Path
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, append([]byte("# mine\n"), text...), 0o600); err != nil {
				t.Fatal(err)
			}
			*said = nil
			if changed, err := m.Install(t.Context()); err != nil || changed || !m.Files[0].Once && !strings.Contains(strings.Join(*said, ""), "you have changed it") {
				t.Errorf("install after an edit: %v, %v, %q", changed, err, *said)
			}
			if _, err := m.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			if after, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(after), "# mine\n") {
				t.Errorf("remove changed the edited file: %v", err)
			}
		})
	}
}

// An install that fails leaves no file.
func TestFailedInstallIsUndone(t *testing.T) {
	fails := []string{"start perigee", "start perigee.socket", "bootstrap", "bootstrap", "start perigee"}
	for i, h := range hosts {
		t.Run(h.name, func(t *testing.T) {
			m, root, _ := rig(t, i, &recorder{fails: fails[i]})
			if _, err := m.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing was installed") {
				t.Fatal(err)
			}
			if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
				t.Errorf("it left %v, %v", left, err)
			}
		})
	}
}

// The unit of a package is used, and no other one is written.
func TestUnitOfAPackageIsUsed(t *testing.T) {
	r := &recorder{}
	host := Host{OS: "linux", Root: t.TempDir() + "/", Run: r.run, Report: func(string, ...any) {}}
	if err := os.MkdirAll(host.Root+"usr/lib/systemd/system", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(host.Root+"usr/lib/systemd/system/perigee.service", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := NewManager(&host, Options{System: true, Program: "/usr/bin/perigee"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Install(t.Context()); err != nil || m.Packaged == "" || host.exists("/etc/systemd") {
		t.Errorf("%v, %q", err, m.Packaged)
	}
	if !strings.Contains(strings.Join(r.lines, "\n"), "systemctl enable perigee.socket perigee.service") {
		t.Errorf("ran %q", r.lines)
	}
}

// Hosts without a service of the wanted kind are refused with the next step.
func TestRefusedServices(t *testing.T) {
	for want, c := range map[string]struct {
		host    Host
		options Options
	}{
		"sudo /opt/perigee service": {Host{OS: "linux", UID: 1000}, Options{System: true, Program: "/opt/perigee"}},
		"HOME":                      {Host{OS: "linux"}, Options{}},
		"--system":                  {Host{OS: "windows"}, Options{}},
		"perigee serve":             {Host{OS: "plan9"}, Options{}},
		"your account":              {Host{OS: "darwin"}, Options{System: true}},
		"home directory":            {Host{OS: "darwin"}, Options{}},
	} {
		if _, err := NewManager(&c.host, c.options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one with %q", err, want)
		}
	}
}

// A program that the sandbox of the unit hides is not installed; a service that was installed earlier
// is removed with it all the same.
func TestHiddenPrograms(t *testing.T) {
	for _, program := range []string{"/home/ada/perigee", "/root/bin/perigee", "/tmp/perigee_0.1.0/perigee", "/var/tmp/perigee"} {
		m, root, _ := rig(t, 1, &recorder{answers: loaded})
		if _, err := m.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		host := *m.host
		host.Root = root + "/"
		m, err := NewManager(&host, Options{System: true, Program: program})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot see "+program+"; copy it first") {
			t.Errorf("install: %v", err)
		}
		if err := m.Print(); err == nil {
			t.Errorf("install --print accepts %s", program)
		}
		if changed, err := m.Remove(t.Context()); err != nil || !changed {
			t.Errorf("remove: %v, %v", changed, err)
		}
	}
}

// A service whose manager cannot be reached, as after su, is neither removed nor called absent: it
// may run.
func TestUnreachableServices(t *testing.T) {
	for i, h := range hosts[:2] {
		t.Run(h.name, func(t *testing.T) {
			r := &recorder{}
			m, _, _ := rig(t, i, r)
			if err := m.Hidden(t.Context(), m.State(t.Context())); err != nil {
				t.Errorf("no service is installed, and it is hidden: %v", err)
			}
			if _, err := m.Install(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.lines = nil // a recorder without answers fails what asks for a state
			if changed, err := m.Remove(t.Context()); err == nil || changed || !strings.Contains(err.Error(), "cannot be reached") {
				t.Errorf("remove: %v, %v", changed, err)
			}
			if len(r.lines) > 0 || !m.host.exists(m.Files[0].Path) {
				t.Errorf("it ran %q, or removed the file", r.lines)
			}
		})
	}
}

// Links to directories stay, and a link in place of a unit is left to the user: systemctl disable would
// remove it.
func TestLinksOfTheUser(t *testing.T) {
	for i, dir := range []string{"home/ada lovelace/.config", "etc/perigee"} {
		t.Run(hosts[i].name, func(t *testing.T) {
			r := &recorder{}
			m, root, _ := rig(t, i, r)
			link, target := filepath.Join(root, dir), filepath.Join(root, "elsewhere")
			if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.Mkdir(target, 0o700), os.Symlink(target, link)); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Install(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.answers = loaded
			if changed, err := m.Remove(t.Context()); err != nil || !changed {
				t.Fatal(changed, err)
			}
			if left, err := os.Readlink(link); err != nil || left != target {
				t.Errorf("%s is %q, %v", link, left, err)
			}

			unit := m.host.Root + m.Files[0].Path
			if err := errors.Join(os.MkdirAll(filepath.Dir(unit), 0o700), os.Symlink(os.DevNull, unit)); err != nil {
				t.Fatal(err)
			}
			r.lines = nil
			_, errInstall := m.Install(t.Context())
			_, errRemove := m.Remove(t.Context())
			for _, err := range []error{errInstall, errRemove, m.Print()} {
				if err == nil || !strings.Contains(err.Error(), "move it away") {
					t.Errorf("with a masked unit: %v", err)
				}
			}
			if len(r.lines) > 0 {
				t.Errorf("it ran %q", r.lines)
			}
		})
	}
}

// A unit cannot have every path: install refuses what systemd would refuse later, or read otherwise.
func TestPathsInUnits(t *testing.T) {
	for text, o := range map[string]Options{
		"quotes or a backslash": {Program: `/srv/"a"/perigee`},
		"it has a control":      {Program: "/srv/perigee", Config: "/srv/a\nExecStartPre=/bin/id"},
		`"a\tb"`:                {Program: "/srv/perigee", Variables: []Variable{{"PERIGEE_DATA_DIR", "a\tb"}}},
	} {
		for _, system := range []bool{false, true} {
			o.System = system
			host := Host{OS: "linux", Home: "/home/ada", Root: t.TempDir() + "/", Run: (&recorder{}).run, Report: func(string, ...any) {}}
			m, err := NewManager(&host, o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.Install(t.Context()); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%+v: %v", o, err)
			}
		}
	}
	for configHome, text := range map[string]string{"config": "absolute", "/home/ada\nExecStartPre=/bin/id": "control character", "/home/\xff": "not UTF-8"} {
		host := Host{OS: "linux", Home: "/home/ada", ConfigHome: configHome, Run: (&recorder{}).run}
		m, err := NewManager(&host, Options{Program: "/srv/perigee"})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Print(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("XDG_CONFIG_HOME=%q: %v", configHome, err)
		}
	}
	unit := Options{Program: "/srv/a$b%c/perigee", Config: "/srv/a$b%c"}.fill("ExecStart=x\n")
	if want := "ExecStart=\"/srv/a$b%%c/perigee\" serve --config \"/srv/a$$b%%c\"\n"; unit != want {
		t.Errorf("got %s", unit)
	}
}

// Variables are added once, in a form that systemd and a shell read alike.
func TestEnvironmentFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "perigee/environment")
	t.Setenv("A_KEY", "plain-value")
	t.Setenv("B_KEY", `a "b" $c`+" `d` \\")
	if err := AddVariables(file, []string{"A_KEY", "B_KEY"}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if want := "A_KEY=plain-value\nB_KEY=\"a \\\"b\\\" \\$c \\`d\\` \\\\\"\n"; err != nil || string(text) != marked(want) {
		t.Errorf("%s, %v", text, err)
	}
	t.Setenv("C_KEY", "c")
	if err := AddVariables(file, []string{"C_KEY"}); err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile(file)
	if err != nil || string(text) != marked(string(unmarked(text))) || strings.Count(string(text), wrote) != 1 || !strings.Contains(string(text), "\nC_KEY=c\n") {
		t.Errorf("%s, %v", text, err)
	}
	if missing, err := MissingVariables(file, []string{"A_KEY", "D_KEY", "B_KEY", "D_KEY"}); err != nil || strings.Join(missing, " ") != "D_KEY" {
		t.Errorf("%q, %v", missing, err)
	}
	// A file of the user stays one.
	if err := os.WriteFile(file, []byte("A_KEY=mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := AddVariables(file, []string{"C_KEY"}); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(file); err != nil || string(text) != "A_KEY=mine\nC_KEY=c\n" {
		t.Errorf("%s, %v", text, err)
	}
}

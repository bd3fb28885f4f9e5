package dashboard

import (
	"path/filepath"
	"runtime"
	"strings"

	"perigee"
	"perigee/internal/lib/terminal"
	"perigee/internal/server/connect"
)

// keyPlaceholder is shown in place of a key in settings.
const keyPlaceholder = "YOUR_KEY"

// Clients returns how the clients of perigee connect are set up for a base URL. needsKey is set if
// they have to send a key.
func Clients(base string, needsKey bool) (list []Client) {
	target := connect.Target{URL: base}
	if needsKey {
		target.Key = perigee.NewSecret(keyPlaceholder)
	}
	// The paths are for a user without settings; nothing is read.
	machine := connect.Machine{Home: "~", Dir: filepath.Join("~", "."), System: runtime.GOOS, Getenv: func(string) string { return "" }}
	for _, c := range connect.Clients() {
		client := Client{Name: c.Name, Title: c.Title, Program: c.Program, NoFile: len(c.Files(machine, target)) == 0}
		if c.Advice != nil {
			client.Note = c.Advice(target)
		}
		if c.Refused {
			client.Program = ""
		}
		if text := environment(&c, machine, target); text != "" && !c.Refused {
			client.Settings = append(client.Settings, Fact{Name: "Environment", Value: text})
		}
		if text, err := c.Print(machine, target, keyPlaceholder); err == nil && text != "" {
			client.Settings = append(client.Settings, Fact{Name: "Settings", Value: strings.TrimRight(text, "\n")})
		}
		list = append(list, client)
	}
	return list
}

// ClientStates returns a function that looks for the clients of perigee connect: their programs on
// PATH, and their settings in the home directory of the user that runs perigee. A client is left
// out if its state cannot be read.
func ClientStates(dataDir func() string) func(base string) map[string]connect.Status {
	return func(base string) map[string]connect.Status {
		machine, err := connect.Host()
		if err != nil {
			return nil
		}
		store, states := connect.Store{Dir: filepath.Join(dataDir(), "connect")}, map[string]connect.Status{}
		for _, c := range connect.Clients() {
			status, err := store.Status(&c, machine, connect.Target{URL: base}, connect.OnPath(c.Program))
			if err == nil && !c.Refused {
				states[c.Name] = status
			}
		}
		return states
	}
}

// addStates adds the states of the clients.
func (v *visit) addStates(list []Client, base string) {
	// Settings have the address of the daemon, not the one that the browser uses.
	if listens, err := browserURL(v.opts.Status().Listen); err == nil {
		base = listens
	}
	states := v.opts.ClientStates(base)
	for i := range list {
		c, status := &list[i], states[list[i].Name]
		c.Here = status.Installed || status.State == connect.Connected || status.State == connect.Changed
		switch {
		case !c.Here:
		case c.NoFile: // only a start with perigee run uses perigee
			c.State = "installed"
		case status.State == connect.Connected:
			c.State, c.Tone = string(status.State), "ok"
		case status.State == connect.Changed:
			c.State, c.Tone = "settings changed", "warn"
		default:
			c.State = string(connect.NotConnected)
		}
	}
}

// environment returns the variables that set a client up, as commands of a shell. It is empty for
// clients that need more than variables.
func environment(c *connect.Client, m connect.Machine, t connect.Target) string {
	if c.Program == "" {
		return ""
	}
	l, err := c.Launch(m, t)
	if err != nil || len(l.Files) > 0 || len(l.Args) > 0 {
		return ""
	}
	var lines []string
	for _, name := range l.Unset {
		lines = append(lines, "unset "+name)
	}
	for _, variable := range l.Env {
		name, value, _ := strings.Cut(variable, "=")
		lines = append(lines, "export "+name+"="+terminal.ShellWord(value))
	}
	return strings.Join(lines, "\n")
}

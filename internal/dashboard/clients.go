package dashboard

import (
	"path/filepath"
	"runtime"
	"strings"

	"perigee"
	"perigee/internal/connect"
)

// keyPlaceholder stands for a key in settings.
const keyPlaceholder = "YOUR_KEY"

// Clients says how the clients of perigee connect are set up for a base URL. needsKey: they have to send a key.
func Clients(base string, needsKey bool) (list []Client) {
	target := connect.Target{URL: base}
	if needsKey {
		target.Key = perigee.NewSecret(keyPlaceholder)
	}
	// Paths are those of a user without settings; nothing is read.
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

// environment returns the variables that set a client up, as commands of a shell. It is empty for clients that need more than
// variables.
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
		lines = append(lines, "export "+name+"="+quote(value))
	}
	return strings.Join(lines, "\n")
}

// quote writes a value for a shell.
func quote(value string) string {
	if strings.ContainsFunc(value, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:/._-@[]", r)
	}) {
		return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
	}
	return value
}

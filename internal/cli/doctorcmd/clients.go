package doctorcmd

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"perigee/internal/cli/command"
	"perigee/internal/cli/connect"
	"perigee/internal/cli/doctor"
)

// clients checks the settings of the clients that are installed, or that perigee connect has set up.
func (e *examination) clients(context.Context) (results []doctor.Result) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	dir, _ := os.Getwd() // without one there are no settings of a project
	machine := connect.Machine{Home: home, System: runtime.GOOS, Getenv: os.Getenv, Dir: dir}
	target := connect.Target{URL: e.address()}
	store := connect.Store{Dir: filepath.Join(e.loaded.Config.DataDir, "connect")}
	for _, c := range connect.Clients() {
		_, missing := exec.LookPath(c.Program)
		status, err := store.Status(&c, machine, target, missing == nil)
		switch {
		case c.Refused, err == nil && status.State == connect.NotInstalled:
			continue
		case err != nil:
			results = append(results, doctor.Result{Check: doctor.NameClient + c.Name, Status: doctor.Warn,
				Detail: err.Error(), Fix: "perigee connect " + c.Name})
			continue
		}
		withoutTools := ""
		if command.WithoutTools(e.loaded.Config, status.Model) {
			withoutTools = status.Model
		}
		results = append(results, doctor.Client{
			Name: c.Name, File: status.File, Connected: status.State == connect.Connected, Changed: status.State == connect.Changed,
			Address: c.Address(machine), Perigee: target.URL, Overrides: c.Overrides(machine, target),
			RunOnly: len(c.Files(machine, target)) == 0, WithoutTools: withoutTools,
		}.Check())
	}
	return results
}

// address is where clients reach perigee: at the running daemon, or else at the address in the configuration, if that has a port.
func (e *examination) address() string {
	if e.daemon.Status != nil {
		return e.daemon.Status.Listen
	}
	host, port, err := net.SplitHostPort(e.loaded.Config.Listen)
	if err != nil || port == "0" {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http://"
	if e.loaded.Config.TLS.Cert != "" {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, port)
}

package doctorcmd

import (
	"context"
	"path/filepath"

	"perigee/internal/cli/command"
	"perigee/internal/cli/connect"
	"perigee/internal/cli/doctor"
)

// clients checks the settings of the clients that are installed, or that perigee connect has set up.
func (e *examination) clients(context.Context) (results []doctor.Result) {
	machine, err := connect.Host()
	if err != nil {
		return nil
	}
	target := connect.Target{URL: e.address()}
	store := connect.Store{Dir: filepath.Join(e.loaded.Config.DataDir, "connect")}
	for _, c := range connect.Clients() {
		status, err := store.Status(&c, machine, target, connect.OnPath(c.Program))
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
	address, _ := command.Address(e.loaded.Config, "")
	return address
}

package doctor

import (
	"context"
	"path/filepath"

	"perigee/internal/cli/command"
	"perigee/internal/server/connect"
)

// clients checks the settings of the clients that are installed, or that perigee connect has set
// up.
func (e *examination) clients(context.Context) (results []Result) {
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
			results = append(results, warn(NameClient+c.Name, "perigee connect "+c.Name, "%v", err))
			continue
		}
		results = append(results, Client{
			Status: status, Address: c.Address(machine), Perigee: target.URL, Overrides: c.Overrides(machine, target),
			RunOnly: len(c.Files(machine, target)) == 0, WithoutTools: command.WithoutTools(e.loaded.Config, status.Model),
		}.Check())
	}
	return results
}

// address returns where clients reach perigee: at the running daemon, or else at the address in the
// configuration. It is empty if there is no such address, or its port is not known.
func (e *examination) address() string {
	listens := ""
	if e.daemon.Status != nil {
		listens = e.daemon.Status.Listen
	}
	address, _ := command.Address(e.loaded.Config, listens)
	return address
}

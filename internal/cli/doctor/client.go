package doctor

import (
	"net/url"
	"strings"

	"perigee/internal/lib/netguard"
	"perigee/internal/server/connect"
)

// A Client is a coding agent or editor on this machine, with its settings.
type Client struct {
	connect.Status
	Address string // in its settings; empty if there is none
	Perigee string // the address of this perigee; empty if unknown, because no daemon is running
	RunOnly bool   // it has no settings for this, and is started with perigee run
	// Overrides take precedence over the settings: "the environment variable NAME", a path, or "KEY
	// in PATH".
	Overrides    []string
	WithoutTools bool // its model is the agent of an IDE, which ignores the client's tools
}

// Check reports whether the client reaches this perigee. A client that is not set up for perigee is
// OK. No program is executed.
func (c Client) Check() Result {
	name, fix := NameClient+c.Client, "perigee connect "+commandLine(c.Client)
	connected := c.State == connect.Connected
	switch {
	case c.RunOnly:
		return ok(name, "perigee run %s starts it with perigee", c.Client)
	case connected && c.Perigee != "" && c.Address != "" && !sameHost(c.Address, c.Perigee):
		return warn(name, fix, "connected to %s, but perigee listens on %s", c.Address, c.Perigee)
	case c.State == connect.Changed:
		return warn(name, fix, "%s was changed after perigee connect", c.File)
	case connected && len(c.Overrides) > 0:
		return warn(name, overrideFix(c.Overrides[0]), "%s is connected, but overridden by %s", c.File, strings.Join(c.Overrides, ", "))
	case connected && c.WithoutTools:
		return warn(name, fix, "%s is the agent of the IDE, which ignores the tools of %s: it cannot read, edit or run anything for it", c.Model, c.Client)
	case connected:
		return ok(name, "connected, %s", c.File)
	case c.Perigee != "" && isLoopback(c.Address) && !sameHost(c.Address, c.Perigee):
		return warn(name, fix, "%s points at %s, but perigee listens on %s", c.File, c.Address, c.Perigee)
	}
	return ok(name, "not connected; perigee connect %s writes its settings", c.Client)
}

// overrideFix returns the command that removes an override, or opens its file.
func overrideFix(override string) string {
	if name, isVariable := strings.CutPrefix(override, "the environment variable "); isVariable {
		return "unset " + name
	}
	if _, path, found := strings.Cut(override, " in "); found {
		return edit(path, 0)
	}
	return edit(override, 0)
}

// sameHost reports whether two addresses have the same port on the same machine.
func sameHost(a, b string) bool {
	one, err := url.Parse(a)
	if err != nil {
		return false
	}
	two, err := url.Parse(b)
	if err != nil {
		return false
	}
	local := netguard.IsLoopback(one.Hostname()) && netguard.IsLoopback(two.Hostname())
	return one.Port() == two.Port() && (local || one.Hostname() == two.Hostname())
}

func isLoopback(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && netguard.IsLoopback(u.Hostname())
}

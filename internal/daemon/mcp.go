package daemon

import (
	"context"
	"net/http"
	"os"

	"perigee"
	"perigee/internal/mcp/ask"
	"perigee/internal/mcp/mcpserver"
	"perigee/internal/route/record"
	"perigee/internal/server/mount"
)

// fixturesVariable registers the fixtures of the MCP conformance suite, on a loopback address only.
const fixturesVariable = "PERIGEE_MCP_FIXTURES"

// newMCP returns the MCP server of the daemon and the paths of asks.
func (d *Daemon) newMCP(recorded record.Reader) []mount.Point {
	asks := newAsks(d.gateway, d.opts, d.config, d.store, d.recorder)
	d.mcp = mcpserver.New(mcpserver.Options{
		Backend: mcpBackend{asks, recorded, d.control},
		Version: d.opts.Version, Logger: d.opts.Logger, Now: d.opts.Now, Files: mcpserver.Files(d.loaded.Load, d.opts.Logger),
		ReadOnly: func() bool { m := d.loaded.Load().Config.MCP; return !m.Write || !m.HTTPWrite },
		Fixtures: os.Getenv(fixturesVariable) == "1" && d.loopback(d.opts.Loaded.Config.Listen),
	})
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := mount.CallOf(r)
		d.mcp.ServeHTTP(w, r.WithContext(mcpserver.WithCaller(r.Context(), mcpserver.Caller{
			Key: call.Key, AllowsModel: call.AllowsModel, Trusted: call.Trusted, HostChecked: true, Admit: call.Admit,
		})))
	})
	return []mount.Point{{Path: "/mcp", Access: mount.ClientOrOwner, Handler: serve}, ask.RelayPoint(asks)}
}

// An mcpBackend answers tool calls in the daemon.
type mcpBackend struct {
	*ask.Service
	record.Reader
	control perigee.Control
}

func (b mcpBackend) Open(context.Context) (perigee.Control, func(), error) {
	return b.control, func() {}, nil
}

func (b mcpBackend) LastFailure(ctx context.Context, key string, all bool) (perigee.Trace, bool, error) {
	return mcpserver.LastFailure(ctx, b.Reader, key, all)
}

// An mcpService ends the sessions of MCP clients, because their event streams would keep the server
// open.
type mcpService struct{ *mcpserver.Server }

// Start does nothing: clients reach the server through the API.
func (mcpService) Start(context.Context, func(error)) error { return nil }

// Close ends the open sessions.
func (s mcpService) Close(context.Context) error { return s.Server.Close() }

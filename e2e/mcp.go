package main

import "slices"

// modelContext are programs that use perigee as an MCP server.
func modelContext() []client {
	return slices.Concat([]client{mcpConformance(), mcpInspector()}, mcpAgents(), []client{mcpAsks(), mcpCancels(), mcpBesideDaemons()})
}

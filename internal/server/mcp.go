package server

import (
	"net/http"

	"perigee"
	"perigee/internal/dialect/mcp"
)

// mcpDialect is the Model Context Protocol, which a mount answers. A key in the URL is not accepted: MCP clients store and log the
// URLs of servers.
var mcpDialect = dialect{
	name:        perigee.DialectMCP,
	owns:        func(path string, _ http.Header) bool { return path == "/mcp" },
	headerKeys:  true,
	encodeError: func(_ *call, _ int, err *perigee.Error) []byte { return mcp.EncodeError(err) },
}

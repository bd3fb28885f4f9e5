package server

import (
	"encoding/json"
	"net/http"

	"perigee"
)

// mcpDialect is the Model Context Protocol, which a mount answers. A key in the URL is not
// accepted: MCP clients store and log the URLs of servers.
var mcpDialect = dialect{
	name:        perigee.DialectMCP,
	owns:        func(path string, _ http.Header) bool { return path == "/mcp" },
	headerKeys:  true,
	encodeError: func(_ *call, _ int, err *perigee.Error) []byte { return encodeMCPError(err) },
}

// codeRefused is the JSON-RPC code of errors of HTTP requests that do not become JSON-RPC requests.
// The class in their data distinguishes them.
const codeRefused = -32001

// encodeMCPError returns an error of JSON-RPC that belongs to no request.
func encodeMCPError(err *perigee.Error) []byte {
	type data struct {
		Class perigee.Class `json:"class"`
	}
	type rpcError struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    data   `json:"data"`
	}
	body, _ := json.Marshal(struct { // texts and a number can be written
		Version string   `json:"jsonrpc"`
		ID      any      `json:"id"`
		Error   rpcError `json:"error"`
	}{"2.0", nil, rpcError{codeRefused, err.Error(), data{err.Class}}})
	return body
}

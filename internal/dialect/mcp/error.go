// Package mcp has what the Model Context Protocol needs beside its own library: the errors of HTTP requests that do not become
// requests of JSON-RPC.
package mcp

import (
	"encoding/json"

	"perigee"
)

// codeRefused is the code of all such errors; the class says more.
const codeRefused = -32001

// EncodeError writes an error of JSON-RPC that belongs to no request.
func EncodeError(err *perigee.Error) []byte {
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

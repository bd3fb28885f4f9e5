// Package mcp is the room of tools: the MCP server, the asks that its tools and POST /v1/ask make
// of an agent, and the bridge to perigee's extension in an editor. upstream, daemon and cli may
// import it. Begin with mcpserver/tools.go and ask.Service.
//
//	ask        asks: prompts for the agent of a language server or for a model, and their answers
//	bridge     connections to the windows of an editor, through perigee's extension
//	fixtures   fixed answers of the MCP server for tests of clients (PERIGEE_MCP_FIXTURES)
//	mcpserver  the MCP server, over HTTP and over standard input and output
package mcp

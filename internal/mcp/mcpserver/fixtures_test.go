package mcpserver

import (
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestFixturesAreThereOnlyForTheSuite(t *testing.T) {
	for _, fixtures := range []bool{false, true} {
		c := pipes(t, newServer(t, Options{Fixtures: fixtures}), nil, nil)
		names := toolNames(t, c)
		if got := slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "test_") }); got != fixtures {
			t.Errorf("with fixtures %v the tools are %v", fixtures, names)
		}
		if !slices.Contains(names, "ask_antigravity") {
			t.Errorf("with fixtures %v the tools are %v", fixtures, names)
		}
		_, err := c.CallTool(soon(t), &mcp.CallToolParams{Name: "test_simple_text"})
		if (err == nil) != fixtures {
			t.Errorf("with fixtures %v the call of one: %v", fixtures, err)
		}
		caps := c.InitializeResult().Capabilities
		if (caps.Prompts != nil) != fixtures || (caps.Resources != nil) != fixtures || caps.Tools == nil || caps.Tools.ListChanged != fixtures {
			t.Errorf("with fixtures %v the capabilities are %+v", fixtures, caps)
		}
	}
}

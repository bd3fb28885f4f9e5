package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"perigee"
)

// A tool is a tool of the contract.
type tool struct {
	def   *mcp.Tool
	input *jsonschema.Schema
	// lenient means that the tool itself checks for required arguments.
	lenient bool
	// hidden returns why the tool is not offered in a request, or nil if it is offered. A nil func
	// never hides the tool.
	hidden func(*Server, *call) *perigee.Error
	run    func(context.Context, *call) (*mcp.CallToolResult, error)
}

// A call is a call of a tool.
type call struct {
	server  *Server
	session *session // nil if there is none
	client  *mcp.ServerSession
	caller  Caller
	tool    *tool
	params  *mcp.CallToolParamsRaw
}

func allTools() []*tool {
	return []*tool{readTool(), writeTool(), listTool(), askTool(), modelsTool(), quotaTool(), usageTool(), explainTool()}
}

func (s *Server) call(ctx context.Context, client *mcp.ServerSession) *call {
	return &call{server: s, session: sessionOf(ctx), client: client, caller: s.caller(ctx, client)}
}

// visible returns the tools that the caller may use.
func (s *Server) visible(ctx context.Context, req mcp.Request, all []*mcp.Tool) []*mcp.Tool {
	c := s.call(ctx, req.GetSession().(*mcp.ServerSession))
	list := []*mcp.Tool{}
	for _, def := range all {
		if t := s.tools[def.Name]; t == nil || t.hidden == nil || t.hidden(s, c) == nil {
			list = append(list, def)
		}
	}
	return list
}

// handler runs a tool. An error of the tool is a result for the model, not an error of the
// protocol.
func (s *Server) handler(t *tool) mcp.ToolHandler {
	return func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		c := s.call(ctx, r.Session)
		c.tool, c.params = t, r.Params
		if t.hidden != nil {
			if why := t.hidden(s, c); why != nil {
				return failed(c.caller, why), nil
			}
		}
		result, err := t.run(ctx, c)
		if err != nil {
			return failed(c.caller, err), nil
		}
		return result, nil
	}
}

// failed returns the result of a call that has failed.
func failed(c Caller, err error) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: explainTo(c, err)}}}
}

// explainTo returns the error and its hint as text. Details of this machine are only for its user.
func explainTo(c Caller, err error) string {
	e := perigee.AsError(err)
	if e.Public != "" && !c.Trusted {
		return e.Public
	}
	return e.Error()
}

// structured returns a result with a value, and with texts for clients and models that do not read
// the value. Without texts the value is also the text.
func structured(value any, texts ...string) (*mcp.CallToolResult, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	if len(texts) == 0 {
		texts = []string{string(data)}
	}
	result := &mcp.CallToolResult{StructuredContent: json.RawMessage(data)}
	for _, t := range texts {
		result.Content = append(result.Content, &mcp.TextContent{Text: t})
	}
	return result, nil
}

// decode reads the arguments of a call. Unknown arguments are an error: a model that has
// misspelled one would otherwise get a result that it did not ask for.
func decode[T any](c *call) (T, error) {
	var in T
	args := bytes.TrimSpace(c.params.Arguments)
	if len(args) == 0 || bytes.Equal(args, []byte("null")) {
		args = []byte("{}")
	}
	if args[0] != '{' {
		return in, c.badArguments("the arguments are not an object")
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.DisallowUnknownFields()
	err := dec.Decode(&in)
	if err == nil {
		if _, err = dec.Token(); err == io.EOF {
			return in, c.missing(args)
		}
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return in, c.badArguments("%s is a %s", perigee.Clip(wrong.Field, 100), perigee.Clip(wrong.Value, 100))
	}
	if unknown, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return in, c.badArguments("there is no argument %s", perigee.Clip(unknown, 100))
	}
	return in, c.badArguments("%v", err)
}

// missing returns an error if a required argument is missing.
func (c *call) missing(args []byte) error {
	if c.tool.lenient {
		return nil
	}
	var have map[string]json.RawMessage
	if err := json.Unmarshal(args, &have); err != nil {
		return c.badArguments("%v", err)
	}
	for _, name := range c.tool.input.Required {
		if v, ok := have[name]; !ok || string(v) == "null" {
			return c.badArguments("the argument %q is missing", name)
		}
	}
	return nil
}

func (c *call) badArguments(format string, args ...any) *perigee.Error {
	e := perigee.Errorf(perigee.ClassInvalid, c.tool.def.Name+": "+format, args...)
	var known []string
	for _, name := range c.tool.input.PropertyOrder {
		known = append(known, name+" ("+c.tool.input.Properties[name].Type+")")
	}
	if len(known) == 0 {
		return e.WithHint("it has no arguments")
	}
	return e.WithHint("its arguments are %s", strings.Join(known, ", "))
}

// newTool returns a tool and sets one more annotation: only ask_antigravity reaches beyond this
// machine.
func newTool(name, title, description string, input, output *jsonschema.Schema) *tool {
	closed := false
	return &tool{
		input: input,
		def: &mcp.Tool{
			Name: name, Title: title, Description: description, InputSchema: input, OutputSchema: output,
			Annotations: &mcp.ToolAnnotations{Title: title, ReadOnlyHint: true, OpenWorldHint: &closed},
		},
	}
}

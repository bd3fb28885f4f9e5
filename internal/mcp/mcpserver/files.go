package mcpserver

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"perigee"
	"perigee/internal/lib/filetool"
)

func readTool() *tool {
	t := newTool("read_file", "Read a file",
		"Reads a text file, or a range of its lines. Long files are returned in parts of at most 2000 lines or 256 KiB.",
		argumentsOf[filetool.ReadInput](), resultOf[filetool.ReadResult]())
	t.hidden = noFiles
	t.run = runFile((*filetool.Tools).Read, readTexts)
	return t
}

// readTexts returns the text of a file, and how to read the remaining part.
func readTexts(in filetool.ReadInput, out *filetool.ReadResult) []string {
	if out.Encoding != "" {
		part := "content"
		if out.Truncated {
			part = "beginning"
		}
		return []string{fmt.Sprintf("%s is not a text file. Its %s is in the structured result, as %s.", out.Path, part, out.Encoding)}
	}
	if out.Lines == 0 && in.Offset > 1 && out.TotalLines != nil {
		return []string{fmt.Sprintf("There are no lines from %d on: %s ends with line %d.", in.Offset, out.Path, *out.TotalLines)}
	}
	if !out.Truncated {
		return []string{out.Content}
	}
	first := max(in.Offset, 1)
	last := first + out.Lines - 1
	var hint strings.Builder
	fmt.Fprintf(&hint, "These are lines %d to %d of %s.", first, last, out.Path)
	if !strings.HasSuffix(out.Content, "\n") {
		fmt.Fprintf(&hint, " Line %d is too long and cut; its rest cannot be read.", last)
	}
	if out.TotalLines == nil || *out.TotalLines > last {
		fmt.Fprintf(&hint, " Read on with offset %d.", last+1)
	}
	return []string{out.Content, hint.String()}
}

func writeTool() *tool {
	t := newTool("write_file", "Write a file",
		"Writes a whole file, or creates it. Give expected_sha256, as read_file has returned it, so that changes made meanwhile are not lost.",
		argumentsOf[filetool.WriteInput](), resultOf[filetool.WriteResult]())
	t.input.Properties["encoding"].Enum = []any{"utf-8", "base64"}
	destructive := true
	t.def.Annotations.ReadOnlyHint, t.def.Annotations.DestructiveHint, t.def.Annotations.IdempotentHint = false, &destructive, true
	t.hidden = noWriting
	t.run = runFile((*filetool.Tools).Write, nil)
	return t
}

func listTool() *tool {
	t := newTool("list_files", "List files",
		"Lists files and directories, 1000 at a time. What .gitignore names is left out.",
		argumentsOf[filetool.ListInput](), resultOf[filetool.ListResult]())
	t.hidden = noFiles
	t.run = runFile((*filetool.Tools).List, nil)
	return t
}

func noFiles(s *Server, c *call) *perigee.Error {
	if s.o.Files(c.caller) != nil {
		return nil
	}
	return perigee.Errorf(perigee.ClassForbidden, "files are not available to this client").
		WithHint("they need mcp.roots in perigee's configuration, with directories that all exist, and a key from keys; ask the user to check both")
}

func noWriting(s *Server, c *call) *perigee.Error {
	tools := s.o.Files(c.caller)
	switch {
	case tools == nil:
		return noFiles(s, c)
	case s.o.ReadOnly() || !tools.CanWrite():
		return perigee.Errorf(perigee.ClassForbidden, "write_file is off: this server is read-only").
			WithHint("nothing was written; show the user the change instead")
	}
	return nil
}

// runFile returns the function of a file tool, which works inside the roots of the client. The
// result has the texts of that function, if it is not nil.
func runFile[In, Out any](
	run func(*filetool.Tools, context.Context, In) (*Out, error), texts func(In, *Out) []string,
) func(context.Context, *call) (*mcp.CallToolResult, error) {
	return func(ctx context.Context, c *call) (*mcp.CallToolResult, error) {
		in, err := decode[In](c)
		if err != nil {
			return nil, err
		}
		tools := c.server.o.Files(c.caller)
		if tools == nil { // changed since the check
			return nil, noFiles(c.server, c)
		}
		if c.session != nil {
			if dirs := c.session.clientRoots(ctx, c.client); len(dirs) > 0 {
				tools = tools.Narrow(dirs)
				defer tools.Close()
			}
		}
		out, err := run(tools, ctx, in)
		if err != nil {
			return nil, err
		}
		if texts == nil {
			return structured(out)
		}
		return structured(out, texts(in, out)...)
	}
}

// argumentsOf returns the schema of a type as arguments, with descriptions from its tags.
func argumentsOf[T any]() *jsonschema.Schema {
	s := resultOf[T]()
	s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	return s
}

// resultOf returns the schema of a type as a result, with descriptions from its tags.
func resultOf[T any]() *jsonschema.Schema {
	s, err := jsonschema.ForType(reflect.TypeFor[T](), &jsonschema.ForOptions{})
	if err != nil {
		panic(err) // a type of this program has no schema
	}
	simplify(s)
	return s
}

// simplify removes keywords that the other schemas do not have either: null as a type, and
// additionalProperties.
func simplify(s *jsonschema.Schema) {
	if len(s.Types) > 0 {
		s.Types = slices.DeleteFunc(slices.Clone(s.Types), func(t string) bool { return t == "null" })
		s.Type, s.Types = s.Types[0], nil
	}
	s.AdditionalProperties, s.Format = nil, ""
	for _, p := range s.Properties {
		simplify(p)
	}
	if s.Items != nil {
		simplify(s.Items)
	}
}

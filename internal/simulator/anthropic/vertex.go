package anthropic

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Vertex AI serves the same API with the model in the path, and without some of its parts.

const (
	vertexVersion = "vertex-2023-10-16"
	maxVertexBody = 30 << 20
	vertexCallID  = "toolu_vrtx_01"
	vertexMark    = "vrtx_" // in IDs

	// VertexTooLong is the message about a prompt that exceeds the context of the model. It has no
	// numbers.
	VertexTooLong = "Prompt is too long"
)

// vertexBetas are prefixes of the betas that Vertex AI knows. It refuses all other ones.
var vertexBetas = []string{"claude-code-2", "compact-", "computer-use-", "context-1m-", "context-management-", "effort-", "fine-grained-tool-streaming-",
	"interleaved-thinking-", "output-128k-", "structured-outputs-", "token-efficient-tools-", "tool-examples-", "tool-search-tool-", "web-search-"}

// vertexTools are prefixes of the tools of the provider that Vertex AI does not have.
var vertexTools = []string{"code_execution_", "web_fetch_", "advisor_", "mcp_toolset"}

// FindVertexModel returns the model with an ID of Vertex AI: models before 4.6 have their date after
// an @, and newer ones have none.
func FindVertexModel(id string) (Model, bool) {
	if strings.Count(id, "@") == 1 {
		return FindModel(strings.Replace(id, "@", "-", 1))
	}
	model, found := FindModel(id)
	dated := slices.ContainsFunc(ModelTable(), func(m Model) bool { return m.Name == model.Name && m.ID != model.ID })
	return model, found && !dated
}

// CheckVertex is Check for a request to Vertex AI. The model is that of the path; for Count it is in
// the body.
func CheckVertex(in Input, model string) (*Request, *Refusal) {
	if len(in.Body) > maxVertexBody {
		return nil, NewRefusal(http.StatusRequestEntityTooLarge, "body.size", "Request exceeds the maximum size")
	}
	in.Version, in.vertex = "2023-06-01", true
	root, refusal := in.object()
	if refusal != nil {
		return nil, refusal
	}
	version := root.get("anthropic_version")
	switch {
	case in.Method == Count && version.kind() == 0:
	case version.kind() == 0:
		return nil, invalid("vertex.version", "anthropic_version: Field required")
	case version.text() != vertexVersion:
		return nil, invalid("vertex.version", "anthropic_version: Input should be '%s'", vertexVersion)
	}
	if in.Method == Create && root.get("model").kind() != 0 {
		return nil, invalid("vertex.model", "model: Extra inputs are not permitted")
	}
	if in.Method == Count {
		model = root.get("model").text()
	}
	var unknown []string
	for _, beta := range in.Betas {
		if !slices.ContainsFunc(vertexBetas, func(prefix string) bool { return strings.HasPrefix(beta, prefix) }) {
			unknown = append(unknown, "`"+beta+"`")
		}
	}
	if len(unknown) > 0 {
		return nil, invalid("vertex.beta", "Unexpected value(s) %s for the `anthropic-beta` header. Please consult our documentation at docs.claude.com or try again without the header.",
			strings.Join(unknown, ", "))
	}
	found, _ := FindVertexModel(model)
	members := []string{fmt.Sprintf(`"model":%s`, encode(found.ID))}
	for i, key := range root.keys {
		if key != "model" && key != "anthropic_version" {
			members = append(members, fmt.Sprintf("%s:%s", encode(key), root.kids[i].raw))
		}
	}
	if found.ID == "" {
		return nil, NewRefusal(http.StatusNotFound, "model.unknown", "model: %s", model)
	}
	in.Body = []byte("{" + strings.Join(members, ",") + "}")
	return Check(in)
}

// vertexRules are the parts of the API that Vertex AI does not have.
func vertexRules() []Rule {
	return []Rule{
		{Name: "vertex.source", Section: "6", check: checkVertexSource,
			Pass: asked("", user(imageOf)).onVertex(),
			Fail: asked("", user(`{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}`)).onVertex(),
			Text: "messages.0.content.0.image.source.url: URL sources are not supported on Vertex AI"},
		{Name: "vertex.tool", Section: "6", check: checkVertexTool,
			Pass: asked(`"tools":[{"type":"web_search_20250305","name":"web_search"}]`).onVertex(),
			Fail: asked(`"tools":[{"type":"code_execution_20250825","name":"code_execution"}]`).onVertex(),
			Text: "tools.0: Input tag 'code_execution_20250825' found using 'type' is not supported on Vertex AI"},
	}
}

func (e Example) onVertex() Example { e.vertex = true; return e }

func checkVertexSource(r *Request) *Refusal {
	if !r.in.vertex {
		return nil
	}
	return r.sources(func(path string, b Block) *Refusal {
		switch kind := b.node.get("source").get("type").text(); kind {
		case "url":
			return invalid("", "%s: URL sources are not supported on Vertex AI", path)
		case "file":
			return invalid("", "%s: file sources are not supported on Vertex AI", path)
		}
		return nil
	})
}

func checkVertexTool(r *Request) *Refusal {
	if !r.in.vertex {
		return nil
	}
	for i, t := range r.Tools {
		if slices.ContainsFunc(vertexTools, func(prefix string) bool { return strings.HasPrefix(t.Type, prefix) }) {
			return invalid("", "tools.%d: Input tag '%s' found using 'type' is not supported on Vertex AI", i, t.Type)
		}
	}
	return nil
}

package ollama

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// The two programs that run a model.
const (
	runnerOllama = "ollama"
	runnerLlama  = "llamacpp"
)

// Model is a model that has been pulled.
type Model struct {
	Name         string
	Family       string
	Parameters   string // their number, such as "7.6B"
	Quantization string
	Size         int64 // bytes
	Context      int   // tokens
	Dimensions   int   // of its embeddings
	Runner       string
	Capabilities []string
	Always       bool   // it thinks even if the request has think: false
	Remote       string // the name of the model at ollama.com, which runs it
}

// Models lists the models, the one that was changed last first.
func Models() []Model {
	return []Model{
		{Name: "qwen3:8b", Family: "qwen3", Parameters: "8.2B", Quantization: "Q4_K_M", Size: 5_225_388_164, Context: 40_960, Dimensions: 4096,
			Runner: runnerLlama, Capabilities: []string{"completion", "tools", "thinking"}},
		{Name: "gpt-oss:20b", Family: "gptoss", Parameters: "20.9B", Quantization: "MXFP4", Size: 13_793_441_244, Context: 131_072, Dimensions: 2880,
			Runner: runnerOllama, Capabilities: []string{"completion", "tools", "thinking"}, Always: true},
		{Name: "qwen2.5-coder:7b", Family: "qwen2", Parameters: "7.6B", Quantization: "Q4_K_M", Size: 4_683_087_332, Context: 32_768, Dimensions: 3584,
			Runner: runnerOllama, Capabilities: []string{"completion", "tools", "insert"}},
		{Name: "gemma3:4b", Family: "gemma3", Parameters: "4.3B", Quantization: "Q4_K_M", Size: 3_338_801_804, Context: 131_072, Dimensions: 2560,
			Runner: runnerOllama, Capabilities: []string{"completion", "vision"}},
		{Name: "llama2:7b", Family: "llama", Parameters: "7B", Quantization: "Q4_0", Size: 3_826_793_677, Context: 4096, Dimensions: 4096,
			Runner: runnerLlama, Capabilities: []string{"completion"}},
		{Name: "nomic-embed-text:latest", Family: "nomic-bert", Parameters: "137M", Quantization: "F16", Size: 274_302_450, Context: 2048, Dimensions: 768,
			Runner: runnerLlama, Capabilities: []string{"embedding"}},
		{Name: "gpt-oss:120b-cloud", Family: "gptoss", Parameters: "116.8B", Quantization: "MXFP4", Size: 384, Context: 131_072, Dimensions: 2880,
			Capabilities: []string{"completion", "tools", "thinking"}, Remote: "gpt-oss:120b"},
	}
}

// Find returns the model of a name, whose tag may be left out if it is "latest". Case does not
// matter.
func Find(name string) (Model, bool) {
	for _, prefix := range []string{"registry.ollama.ai/", "library/"} {
		name = strings.TrimPrefix(name, prefix)
	}
	if !strings.Contains(name, ":") {
		name += ":latest"
	}
	all := Models()
	i := slices.IndexFunc(all, func(m Model) bool { return strings.EqualFold(m.Name, name) })
	if i < 0 {
		return Model{}, false
	}
	return all[i], true
}

func (m Model) can(capability string) bool { return slices.Contains(m.Capabilities, capability) }

// fullName is the name in errors about capabilities.
func (m Model) fullName() string {
	return "registry.ollama.ai/library/" + strings.TrimSuffix(m.Name, ":latest")
}

func (m Model) digest() string {
	sum := sha256.Sum256([]byte(m.Name))
	return hex.EncodeToString(sum[:])
}

func (m Model) modified() time.Time {
	at := slices.IndexFunc(Models(), func(other Model) bool { return other.Name == m.Name })
	return time.Date(2026, 1, 20-at, 12, 0, 0, 0, time.UTC)
}

// Details is the object of this name in lists.
type Details struct {
	Parent       string   `json:"parent_model"`
	Format       string   `json:"format"`
	Family       string   `json:"family"`
	Families     []string `json:"families"`
	Parameters   string   `json:"parameter_size"`
	Quantization string   `json:"quantization_level"`
	Context      int      `json:"context_length,omitempty"`
}

func (m Model) details() Details {
	return Details{Format: "gguf", Family: m.Family, Families: []string{m.Family}, Parameters: m.Parameters, Quantization: m.Quantization}
}

// Listed is an entry of /api/tags or /api/ps.
type Listed struct {
	Name         string     `json:"name"`
	Model        string     `json:"model"`
	RemoteModel  string     `json:"remote_model,omitempty"`
	RemoteHost   string     `json:"remote_host,omitempty"`
	Modified     *time.Time `json:"modified_at,omitempty"`
	Size         int64      `json:"size"`
	Digest       string     `json:"digest"`
	Details      Details    `json:"details"`
	Capabilities []string   `json:"capabilities,omitempty"`
	Expires      *time.Time `json:"expires_at,omitempty"`
	VRAM         int64      `json:"size_vram,omitempty"`
	Context      int        `json:"context_length,omitempty"` // as allocated
}

const remoteHost = "https://ollama.com:443"

func (m Model) listed() Listed {
	return Listed{Name: m.Name, Model: m.Name, Size: m.Size, Digest: m.digest(), Details: m.details()}
}

// Tags is the answer of /api/tags.
func Tags() any {
	list := []Listed{}
	for _, m := range Models() {
		entry := m.listed()
		entry.Modified, entry.Capabilities, entry.Details.Context = new(m.modified()), m.Capabilities, m.Context
		if m.Remote != "" {
			entry.RemoteModel, entry.RemoteHost = m.Remote, remoteHost
		}
		list = append(list, entry)
	}
	return map[string]any{"models": list}
}

// Show is the answer of /api/show to a body, or its refusal.
func Show(body []byte) (any, *Refusal) {
	var request struct{ Model, Name string }
	if refusal := decode(body, &request); refusal != nil {
		return nil, refusal
	}
	if request.Model == "" {
		request.Model = request.Name
	}
	m, refusal := find(request.Model)
	if refusal != nil {
		return nil, refusal
	}
	answer := map[string]any{"details": m.details(), "capabilities": m.Capabilities, "modified_at": m.modified(),
		"model_info": map[string]any{
			"general.architecture": m.Family, "general.file_type": 15, "general.quantization_version": 2,
			m.Family + ".context_length": m.Context, m.Family + ".embedding_length": m.Dimensions, "tokenizer.ggml.tokens": []any{},
		}}
	if m.Remote != "" {
		answer["remote_model"], answer["remote_host"] = m.Remote, remoteHost
		return answer, nil
	}
	answer["template"], answer["modelfile"] = "{{ .Prompt }}", "# Modelfile generated by \"ollama show\"\nFROM "+m.Name+"\n"
	answer["parameters"] = "stop                           \"<|im_end|>\""
	return answer, nil
}

package ollama

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Refusal is an error of the server.
type Refusal struct {
	Status  int
	Message string
	SignIn  string // the address at which the user signs in to ollama.com, or ""
	Rule    string // of the call log; never sent
}

// Body is the refusal as JSON.
func (r *Refusal) Body() []byte {
	return encode(struct {
		Error  string `json:"error"`
		SignIn string `json:"signin_url,omitempty"`
	}{r.Message, r.SignIn})
}

func refuse(status int, rule, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Rule: rule, Message: fmt.Sprintf(format, args...)}
}

// The members of requests, with the names that the errors of the server have. Members that are not
// here are ignored.

// ChatRequest is the body of /api/chat.
type ChatRequest struct {
	Model       string          `json:"model"`
	Messages    []Message       `json:"messages"`
	Stream      *bool           `json:"stream"`
	Format      json.RawMessage `json:"format"`
	KeepAlive   *Duration       `json:"keep_alive"`
	Tools       []Tool          `json:"tools"`
	Options     map[string]any  `json:"options"`
	Think       *ThinkValue     `json:"think"`
	Truncate    *bool           `json:"truncate"`
	Shift       *bool           `json:"shift"`
	Logprobs    bool            `json:"logprobs"`
	TopLogprobs int             `json:"top_logprobs"`
}

// GenerateRequest is the body of /api/generate. Suffix, Template, Raw and Context change the prompt
// that the model sees, which this simulator does not do.
type GenerateRequest struct {
	Model       string          `json:"model"`
	Prompt      string          `json:"prompt"`
	Suffix      string          `json:"suffix"`
	System      string          `json:"system"`
	Template    string          `json:"template"`
	Context     []int           `json:"context"`
	Raw         bool            `json:"raw"`
	Images      [][]byte        `json:"images"`
	Stream      *bool           `json:"stream"`
	Format      json.RawMessage `json:"format"`
	KeepAlive   *Duration       `json:"keep_alive"`
	Options     map[string]any  `json:"options"`
	Think       *ThinkValue     `json:"think"`
	Truncate    *bool           `json:"truncate"`
	Shift       *bool           `json:"shift"`
	Logprobs    bool            `json:"logprobs"`
	TopLogprobs int             `json:"top_logprobs"`
}

// EmbedRequest is the body of /api/embed.
type EmbedRequest struct {
	Model      string         `json:"model"`
	Input      any            `json:"input"`
	KeepAlive  *Duration      `json:"keep_alive"`
	Truncate   *bool          `json:"truncate"`
	Dimensions int            `json:"dimensions"`
	Options    map[string]any `json:"options"`
}

// Message is a message of a conversation.
type Message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	Thinking   string     `json:"thinking"`
	Images     [][]byte   `json:"images"`
	ToolCalls  []ToolCall `json:"tool_calls"`
	ToolName   string     `json:"tool_name"`
	ToolCallID string     `json:"tool_call_id"`
}

// ToolCall is a call of a function. Its arguments are an object, not a string.
type ToolCall struct {
	ID       string           `json:"id"`
	Function ToolCallFunction `json:"function"`
}

// ToolCallFunction is the function of a call.
type ToolCallFunction struct {
	Index     int       `json:"index"`
	Name      string    `json:"name"`
	Arguments Arguments `json:"arguments"`
}

// A serverText is an error in the words of the server.
type serverText string

func (t serverText) Error() string { return string(t) }

// Arguments is a JSON object; the order of its members is kept.
type Arguments json.RawMessage

// UnmarshalJSON refuses everything but an object.
func (a *Arguments) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(b, []byte("{")) {
		return serverText("Value looks like object, but can't find closing '}' symbol")
	}
	*a = slices.Clone(b)
	return nil
}

// Tool is a declared function, and ToolProperty the part of a schema that the server reads. All
// other members of a schema are lost before the model sees it.
type Tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  ToolParameters `json:"parameters"`
	} `json:"function"`
}

// ToolParameters is the schema of a function.
type ToolParameters struct {
	Type       string                  `json:"type"`
	Defs       any                     `json:"$defs,omitempty"`
	Items      any                     `json:"items,omitempty"`
	Required   []string                `json:"required,omitempty"`
	Properties map[string]ToolProperty `json:"properties"`
}

// ToolProperty is the schema of a parameter.
type ToolProperty struct {
	AnyOf       []ToolProperty          `json:"anyOf,omitempty"`
	Type        PropertyType            `json:"type,omitempty"`
	Items       any                     `json:"items,omitempty"`
	Description string                  `json:"description,omitempty"`
	Enum        []any                   `json:"enum,omitempty"`
	Properties  map[string]ToolProperty `json:"properties,omitempty"`
	Required    []string                `json:"required,omitempty"`
}

// PropertyType is a type or a list of types.
type PropertyType []string

// UnmarshalJSON takes a string or a list.
func (t *PropertyType) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = PropertyType{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// ThinkValue turns thinking on or off, or sets its level.
type ThinkValue struct{ on bool }

// UnmarshalJSON takes a boolean or a level.
func (v *ThinkValue) UnmarshalJSON(b []byte) error {
	var level string
	switch {
	case json.Unmarshal(b, &v.on) == nil:
		return nil
	case json.Unmarshal(b, &level) != nil:
		return fmt.Errorf("think must be a boolean or string (\"high\", \"medium\", \"low\", \"max\", true, or false)")
	case !slices.Contains([]string{"high", "medium", "low", "max"}, level):
		return fmt.Errorf("invalid think value: %q (must be \"high\", \"medium\", \"low\", \"max\", true, or false)", level)
	}
	v.on = true
	return nil
}

// Duration is a number of seconds, or text such as "5m". Negative means without end.
type Duration time.Duration

const forever = 100 * 365 * 24 * time.Hour

// UnmarshalJSON takes both forms.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var value any
	if err := json.Unmarshal(b, &value); err != nil {
		return err
	}
	length := 5 * time.Minute
	switch v := value.(type) {
	case float64:
		length = time.Duration(math.Min(v*float64(time.Second), float64(forever)))
	case string:
		var err error
		if length, err = time.ParseDuration(v); err != nil {
			return err
		}
	default:
		return serverText(fmt.Sprintf("Unsupported type: '%T'", v))
	}
	if length < 0 {
		length = forever
	}
	*d = Duration(length)
	return nil
}

// decode reads a body. The errors have the names of the server's package.
func decode(body []byte, into any) *Refusal {
	if len(bytes.TrimSpace(body)) == 0 {
		return refuse(http.StatusBadRequest, "body.empty", "missing request body")
	}
	if err := json.Unmarshal(body, into); err != nil {
		return refuse(http.StatusBadRequest, "body.json", "%s", strings.ReplaceAll(err.Error(), "ollama.", "api."))
	}
	return nil
}

// find returns a model that has been pulled.
func find(name string) (Model, *Refusal) {
	if name == "" {
		return Model{}, refuse(http.StatusBadRequest, "model.missing", "model is required")
	}
	m, found := Find(name)
	if !found {
		return m, refuse(http.StatusNotFound, "model.unknown", "model '%s' not found", name)
	}
	return m, nil
}

// kinds are the options and their types: i is an integer, f a number, b a boolean, l a list of
// strings.
var kinds = map[string]byte{"num_keep": 'i', "seed": 'i', "num_predict": 'i', "top_k": 'i', "top_p": 'f', "min_p": 'f', "typical_p": 'f',
	"repeat_last_n": 'i', "temperature": 'f', "repeat_penalty": 'f', "presence_penalty": 'f', "frequency_penalty": 'f', "stop": 'l',
	"num_ctx": 'i', "num_batch": 'i', "num_gpu": 'i', "main_gpu": 'i', "use_mmap": 'b', "num_thread": 'i'}

// options are the options of a request that matter here.
type options struct {
	context, predict int
	stop             []string
	runner           string // the options that a model is loaded with
}

// readOptions checks the types. The server ignores unknown options and logs a warning.
func readOptions(given map[string]any) (options, *Refusal) {
	o := options{context: defaultContext, predict: -1}
	for _, name := range []string{"num_batch", "num_gpu", "main_gpu", "use_mmap", "num_thread"} {
		if v := given[name]; v != nil {
			o.runner += fmt.Sprintf("%s=%v ", name, v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		bad := func(kind string) *Refusal {
			return refuse(http.StatusInternalServerError, "options.type", "option %q must be of type %s", name, kind)
		}
		number, isNumber := value.(float64)
		_, isBool := value.(bool)
		list, isList := value.([]any)
		switch kind := kinds[name]; {
		case kind == 0 || value == nil:
		case kind == 'i' && !isNumber:
			return o, bad("integer")
		case kind == 'f' && !isNumber:
			return o, bad("float32")
		case kind == 'b' && !isBool:
			return o, bad("boolean")
		case kind == 'l' && !isList:
			return o, bad("array")
		case kind == 'l':
			for _, each := range list {
				text, ok := each.(string)
				if !ok {
					return o, refuse(http.StatusInternalServerError, "options.type", "option %q must be of an array of strings", name)
				}
				o.stop = append(o.stop, text)
			}
		case name == "num_ctx":
			o.context = int(number)
		case name == "num_predict":
			o.predict = int(number)
		}
	}
	return o, nil
}

// ignored lists the members of a body, and the options, that the server does not have.
func ignored(body []byte, request reflect.Type) []string {
	var members map[string]json.RawMessage
	var given struct{ Options map[string]any }
	if json.Unmarshal(body, &members) != nil || json.Unmarshal(body, &given) != nil {
		return nil
	}
	for f := range request.Fields() {
		delete(members, f.Tag.Get("json"))
	}
	names := slices.Collect(maps.Keys(members))
	for name := range given.Options {
		if kinds[name] == 0 {
			names = append(names, "options."+name)
		}
	}
	slices.Sort(names)
	return names
}

func encode(v any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic("ollama: " + err.Error()) // only values of this package come here
	}
	return bytes.TrimRight(buffer.Bytes(), "\n")
}

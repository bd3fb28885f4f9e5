package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/ollama/ollama/api"
)

// ollamaScenarios examine Ollama's own API of the simulator with the client of the command ollama.
func ollamaScenarios() []scenario {
	return []scenario{
		{"question", inTurn(ollamaQuestion, ollamaGenerate)},
		{"tool loop", ollamaLoop("north")},
		{"parallel tools", ollamaLoop("north", "south")},
		{"thinking", ollamaThinking},
		{"image", ollamaImage},
		{"structured output", ollamaFormat},
		{"log probabilities", ollamaLogprobs},
		{"memory", ollamaMemory},
		{"embeddings", ollamaEmbeddings},
		{"tokens and models", ollamaModels},
		{"error", ollamaErrors},
	}
}

// Models of the simulator. The first two are run by the two programs that Ollama has for it.
const (
	coder  = "qwen2.5-coder:7b"
	qwen   = "qwen3:8b"
	gptoss = "gpt-oss:20b"
	gemma  = "gemma3:4b"
	nomic  = "nomic-embed-text"
)

// ollamaClient compares each answer with what the types of the client keep of it, because the client
// ignores members that it does not know.
func ollamaClient() (*api.Client, *answerReader, error) {
	base, err := url.Parse(simulated)
	if err != nil {
		return nil, nil, err
	}
	r := new(answerReader)
	return api.NewClient(base, &http.Client{Transport: r}), r, nil
}

// An answerReader notes the members of answers that the types of the client lose.
type answerReader struct{ lost []string }

var ollamaAnswers = map[string]func() any{
	"/api/chat":     func() any { return new(api.ChatResponse) },
	"/api/generate": func() any { return new(api.GenerateResponse) },
	"/api/embed":    func() any { return new(api.EmbedResponse) },
	"/api/tags":     func() any { return new(api.ListResponse) },
	"/api/ps":       func() any { return new(api.ProcessResponse) },
	"/api/show":     func() any { return new(api.ShowResponse) },
	"/api/version": func() any {
		return new(struct {
			Version string `json:"version"`
		})
	},
}

// newerThanClient are members that the server has since the version of the client.
var newerThanClient = []string{".models[].capabilities", ".models[].details.context_length"}

func (r *answerReader) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	answer := ollamaAnswers[req.URL.Path]
	if err != nil || resp.StatusCode != http.StatusOK || answer == nil {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		for _, what := range compare(lines.Bytes(), answer()) {
			if member, _, _ := strings.Cut(what, " is lost"); !slices.Contains(newerThanClient, member) && len(r.lost) < 10 {
				r.lost = append(r.lost, req.URL.Path+": "+what)
			}
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, lines.Err()
}

// nothingLost fails with what the types of the client have lost.
func (r *answerReader) nothingLost() error {
	if len(r.lost) > 0 {
		return errors.New(strings.Join(r.lost, "; "))
	}
	return nil
}

func chatOf(model, prompt string) *api.ChatRequest {
	return &api.ChatRequest{Model: model, Messages: []api.Message{{Role: "user", Content: prompt}}}
}

// ollamaBoth asks for a stream and for a whole answer, and wants the same of both. It returns the
// whole one.
func ollamaBoth(ctx context.Context, request *api.ChatRequest) (*api.ChatResponse, error) {
	client, reader, err := ollamaClient()
	if err != nil {
		return nil, err
	}
	var both [2]api.ChatResponse
	for i, stream := range []bool{true, false} {
		request, pieces := *request, 0
		request.Stream = &stream
		all := &both[i]
		err := client.Chat(ctx, &request, func(piece api.ChatResponse) error {
			if all.Done {
				return errors.New("a line after the last one")
			}
			before := *all
			*all, pieces = piece, pieces+1
			all.Message.Content = before.Message.Content + piece.Message.Content
			all.Message.Thinking = before.Message.Thinking + piece.Message.Thinking
			all.Message.ToolCalls = append(before.Message.ToolCalls, piece.Message.ToolCalls...)
			all.Logprobs = append(before.Logprobs, piece.Logprobs...)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if !all.Done || all.DoneReason == "" || all.Model != request.Model || all.CreatedAt.IsZero() || all.Message.Role != "assistant" || stream != (pieces > 1) {
			return nil, fmt.Errorf("stream %v, %d pieces: %+v", stream, pieces, all)
		}
		all.CreatedAt, all.Metrics.LoadDuration, all.Metrics.TotalDuration = time.Time{}, 0, 0 // the first of two may load the model
	}
	for i := range both {
		for j := range both[i].Message.ToolCalls {
			both[i].Message.ToolCalls[j].ID = ""
		}
	}
	if !reflect.DeepEqual(both[0], both[1]) {
		return nil, fmt.Errorf("streamed %+v, whole %+v", both[0], both[1])
	}
	return &both[1], reader.nothingLost()
}

func ollamaQuestion(ctx context.Context) error {
	for _, model := range []string{coder, qwen} {
		wanted := newToken()
		answer, err := ollamaBoth(ctx, chatOf(model, "[[text: it is "+wanted+" and more than six words]]"))
		if err != nil {
			return fmt.Errorf("%s: %w", model, err)
		}
		if answer.DoneReason != "stop" || answer.PromptEvalCount == 0 || answer.EvalCount == 0 || answer.EvalDuration == 0 {
			return fmt.Errorf("%s: %+v", model, answer)
		}
		if err := holds(answer.Message.Content, wanted); err != nil {
			return err
		}
		short := chatOf(model, "[[tokens: 50]]")
		short.Options = map[string]any{"num_predict": 3}
		if answer, err = ollamaBoth(ctx, short); err != nil || answer.DoneReason != "length" {
			return fmt.Errorf("%s: %+v, %v", model, answer, err)
		}
		stopped := chatOf(model, "[[text: before END after]]")
		stopped.Options = map[string]any{"stop": []string{"END"}}
		if answer, err = ollamaBoth(ctx, stopped); err != nil || strings.TrimSpace(answer.Message.Content) != "before" {
			return fmt.Errorf("%s: %+v, %v", model, answer, err)
		}
	}
	return nil
}

// ollamaGenerate uses the method without messages.
func ollamaGenerate(ctx context.Context) error {
	client, reader, err := ollamaClient()
	if err != nil {
		return err
	}
	wanted := newToken()
	for _, stream := range []bool{true, false} {
		text, last := "", api.GenerateResponse{}
		request := &api.GenerateRequest{Model: coder, System: "be short", Prompt: "[[text: it is " + wanted + " and more]]", Stream: &stream}
		if err := client.Generate(ctx, request, func(piece api.GenerateResponse) error {
			text, last = text+piece.Response, piece
			return nil
		}); err != nil {
			return err
		}
		if err := holds(text, wanted); err != nil {
			return err
		}
		if !last.Done || last.DoneReason != "stop" || last.EvalCount == 0 {
			return fmt.Errorf("%+v", last)
		}
	}
	return reader.nothingLost()
}

// ollamaLoop calls tools, whose arguments must stay in the order in which the model wrote them.
func ollamaLoop(names ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		prompt := openOne
		if len(names) > 1 {
			prompt = openTwo
		}
		for _, model := range []string{coder, qwen} {
			v, request := &vault{}, chatOf(model, prompt)
			properties, err := json.Marshal(vaultSchema())
			if err != nil {
				return err
			}
			tool := api.Tool{Type: "function", Function: api.ToolFunction{Name: vaultName, Description: vaultAbout}}
			if err := json.Unmarshal(properties, &tool.Function.Parameters); err != nil {
				return err
			}
			request.Tools = api.Tools{tool}
			first, err := ollamaBoth(ctx, request)
			if err != nil {
				return fmt.Errorf("%s: %w", model, err)
			}
			request.Messages = append(request.Messages, first.Message)
			for i, call := range first.Message.ToolCalls {
				name, _ := call.Function.Arguments.Get("vault")
				if call.Function.Index != i || len(names) == 1 && call.Function.Arguments.String() != `{"vault":"north","floor":3}` {
					return fmt.Errorf("%s: call %d is %+v with %s", model, i, call, call.Function.Arguments.String())
				}
				request.Messages = append(request.Messages, api.Message{Role: "tool", ToolName: call.Function.Name, Content: v.open(fmt.Sprint(name))})
			}
			last, err := ollamaBoth(ctx, request)
			if err != nil {
				return fmt.Errorf("%s: %w", model, err)
			}
			if err := v.quoted(last.Message.Content, names...); err != nil {
				return err
			}
		}
		return nil
	}
}

func ollamaThinking(ctx context.Context) error {
	for _, c := range []struct {
		model  string
		think  any // nil for what the model does by default
		thinks bool
	}{
		{qwen, nil, true}, {qwen, true, true}, {qwen, false, false},
		{gptoss, "low", true}, {gptoss, "high", true}, {gptoss, false, true}, // this model cannot do without
		{coder, nil, false}, {coder, false, false},
	} {
		request := chatOf(c.model, "[[think: let me see]] [[text: done]]")
		if c.think != nil {
			request.Think = &api.ThinkValue{Value: c.think}
		}
		answer, err := ollamaBoth(ctx, request)
		if err != nil {
			return fmt.Errorf("%s, think %v: %w", c.model, c.think, err)
		}
		if answer.Message.Content != "done" || (answer.Message.Thinking == "let me see") != c.thinks {
			return fmt.Errorf("%s, think %v: %+v", c.model, c.think, answer.Message)
		}
	}
	return ollamaRefused(ctx, http.StatusBadRequest, "does not support thinking", &api.ChatRequest{Model: coder, Think: &api.ThinkValue{Value: true}, Messages: chatOf("", "x").Messages})
}

func ollamaImage(ctx context.Context) error {
	data, err := base64.StdEncoding.DecodeString(picture)
	if err != nil {
		return err
	}
	request := chatOf(gemma, "[[text: seen]]")
	without, err := ollamaBoth(ctx, request)
	if err != nil {
		return err
	}
	request.Messages[0].Images = []api.ImageData{data}
	with, err := ollamaBoth(ctx, request)
	if err != nil || with.Message.Content != "seen" || with.PromptEvalCount <= without.PromptEvalCount {
		return fmt.Errorf("%+v without, %+v with the image, %v", without, with, err)
	}
	request.Messages[0].Images = []api.ImageData{[]byte("no picture")}
	if err := ollamaRefused(ctx, http.StatusInternalServerError, "unknown format", request); err != nil {
		return err
	}
	request.Model, request.Messages[0].Images = coder, []api.ImageData{data}
	return ollamaRefused(ctx, http.StatusInternalServerError, "missing data required for image input", request)
}

func ollamaFormat(ctx context.Context) error {
	request := chatOf(coder, "a city")
	request.Format = json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"},"people":{"type":"integer"}},"required":["city","people"]}`)
	answer, err := ollamaBoth(ctx, request)
	if err != nil {
		return err
	}
	var city struct {
		City   *string
		People *int
	}
	if err := json.Unmarshal([]byte(answer.Message.Content), &city); err != nil || city.City == nil || city.People == nil {
		return fmt.Errorf("%q: %v", answer.Message.Content, err)
	}
	request.Format = json.RawMessage(`"json"`)
	if answer, err = ollamaBoth(ctx, request); err != nil || !json.Valid([]byte(answer.Message.Content)) {
		return fmt.Errorf("%+v, %v", answer, err)
	}
	request.Format = json.RawMessage(`"xml"`)
	return ollamaRefused(ctx, http.StatusInternalServerError, "invalid format", request)
}

func ollamaLogprobs(ctx context.Context) error {
	const said = "it is — so"
	request := chatOf(coder, "[[text: "+said+"]]")
	request.Logprobs, request.TopLogprobs = true, 2
	answer, err := ollamaBoth(ctx, request)
	if err != nil {
		return err
	}
	text := ""
	for _, p := range answer.Logprobs {
		text += p.Token
		var token []byte
		for _, b := range p.Bytes {
			token = append(token, byte(b))
		}
		if p.Logprob >= 0 || len(p.TopLogprobs) != 2 || p.TopLogprobs[0].Token != p.Token || p.TopLogprobs[1].Logprob > p.Logprob || string(token) != p.Token {
			return fmt.Errorf("%+v", p)
		}
	}
	if text != said {
		return fmt.Errorf("the tokens are %q", text)
	}
	request.Logprobs = false
	if answer, err = ollamaBoth(ctx, request); err != nil || answer.Logprobs != nil {
		return fmt.Errorf("without logprobs: %+v, %v", answer, err)
	}
	request.TopLogprobs = 21
	return ollamaRefused(ctx, http.StatusBadRequest, "top_logprobs must be between 0 and 20", request)
}

// ollamaMemory loads and unloads a model, with a context that the list of loaded models has.
func ollamaMemory(ctx context.Context) error {
	client, reader, err := ollamaClient()
	if err != nil {
		return err
	}
	loaded := func(context int) error {
		list, err := client.ListRunning(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list.Models, func(m api.ProcessModelResponse) bool { return m.Name == qwen })
		if (i >= 0) != (context > 0) || i >= 0 && (list.Models[i].ContextLength != context || list.Models[i].SizeVRAM == 0 || time.Until(list.Models[i].ExpiresAt) < time.Minute) {
			return fmt.Errorf("with a context of %d: %+v", context, list.Models)
		}
		return nil
	}
	ask := func(request *api.ChatRequest, reason string) error {
		return client.Chat(ctx, request, func(answer api.ChatResponse) error {
			if answer.Done && answer.DoneReason != reason {
				return fmt.Errorf("done_reason is %s, not %s", answer.DoneReason, reason)
			}
			return nil
		})
	}
	hour, now := &api.Duration{Duration: time.Hour}, &api.Duration{}
	long := chatOf(qwen, "[[text: hello]]")
	long.Options, long.KeepAlive = map[string]any{"num_ctx": 16384}, hour
	err = errors.Join(
		ask(&api.ChatRequest{Model: qwen, KeepAlive: hour}, "load"), loaded(4096),
		ask(long, "stop"), loaded(16384),
		ask(&api.ChatRequest{Model: qwen, KeepAlive: now}, "unload"), loaded(0), reader.nothingLost())
	if err != nil {
		return err
	}
	whole := false
	tooLong := chatOf(qwen, strings.Repeat("word ", 10_000))
	tooLong.Truncate = &whole
	if err := ollamaRefused(ctx, http.StatusBadRequest, "exceeds the available context size", tooLong); err != nil {
		return err
	}
	tooLong.Model = coder
	return ollamaRefused(ctx, http.StatusBadRequest, "exceeds the context length", tooLong)
}

func ollamaEmbeddings(ctx context.Context) error {
	client, reader, err := ollamaClient()
	if err != nil {
		return err
	}
	answer, err := client.Embed(ctx, &api.EmbedRequest{Model: nomic, Input: []string{"a cat", "a cat", "a dog"}, Dimensions: 64})
	if err != nil {
		return err
	}
	if v := answer.Embeddings; len(v) != 3 || len(v[0]) != 64 || !slices.Equal(v[0], v[1]) || slices.Equal(v[0], v[2]) || answer.PromptEvalCount == 0 {
		return fmt.Errorf("%+v", answer)
	}
	if answer, err = client.Embed(ctx, &api.EmbedRequest{Model: nomic, Input: "a cat"}); err != nil || len(answer.Embeddings) != 1 || len(answer.Embeddings[0]) != 768 {
		return fmt.Errorf("%+v, %v", answer, err)
	}
	whole := false
	_, err = client.Embed(ctx, &api.EmbedRequest{Model: nomic, Input: strings.Repeat("word ", 10_000), Truncate: &whole})
	if err := isStatus(err, http.StatusBadRequest, "exceeds the context length"); err != nil {
		return err
	}
	_, err = client.Embed(ctx, &api.EmbedRequest{Model: coder, Input: "a"})
	return errors.Join(isStatus(err, http.StatusNotImplemented, "does not support embeddings"), reader.nothingLost())
}

func ollamaModels(ctx context.Context) error {
	client, reader, err := ollamaClient()
	if err != nil {
		return err
	}
	version, err := client.Version(ctx)
	if err != nil || version == "" {
		return fmt.Errorf("version %q, %v", version, err)
	}
	if err := client.Heartbeat(ctx); err != nil {
		return err
	}
	list, err := client.List(ctx)
	if err != nil {
		return err
	}
	if len(list.Models) < 5 {
		return fmt.Errorf("%+v", list)
	}
	for _, m := range list.Models {
		shown, err := client.Show(ctx, &api.ShowRequest{Model: m.Name})
		if err != nil {
			return err
		}
		length, _ := shown.ModelInfo[m.Details.Family+".context_length"].(float64)
		if m.ModifiedAt.IsZero() || m.Size == 0 || len(m.Digest) != 64 || m.Details.ParameterSize == "" || length == 0 || len(shown.Capabilities) == 0 ||
			shown.ModelInfo["general.architecture"] != m.Details.Family || !shown.ModifiedAt.Equal(m.ModifiedAt) || shown.RemoteModel != m.RemoteModel {
			return fmt.Errorf("%+v, %+v", m, shown)
		}
	}
	return reader.nothingLost()
}

// ollamaRefused wants an error of a chat, streamed and not.
func ollamaRefused(ctx context.Context, status int, message string, request *api.ChatRequest) error {
	client, _, err := ollamaClient()
	if err != nil {
		return err
	}
	for _, stream := range []bool{true, false} {
		request := *request
		request.Stream = &stream
		if err := isStatus(client.Chat(ctx, &request, func(api.ChatResponse) error { return nil }), status, message); err != nil {
			return err
		}
	}
	return nil
}

func isStatus(err error, status int, message string) error {
	if e, ok := errors.AsType[api.StatusError](err); !ok || e.StatusCode != status || !strings.Contains(e.ErrorMessage, message) {
		return fmt.Errorf("want %d %s, got %w", status, message, err)
	}
	return nil
}

func ollamaErrors(ctx context.Context) error {
	withTool := chatOf(gemma, "x")
	withTool.Tools = api.Tools{{Type: "function", Function: api.ToolFunction{Name: vaultName}}}
	wrongOption := chatOf(coder, "x")
	wrongOption.Options = map[string]any{"num_ctx": "many"}
	client, _, err := ollamaClient()
	if err != nil {
		return err
	}
	cloud := client.Chat(ctx, chatOf("gpt-oss:120b-cloud", "x"), func(api.ChatResponse) error { return nil })
	if e, ok := errors.AsType[api.AuthorizationError](cloud); !ok || e.StatusCode != http.StatusUnauthorized || e.SigninURL == "" {
		return fmt.Errorf("a model of the cloud: %v", cloud)
	}
	_, shown := client.Show(ctx, &api.ShowRequest{Model: "missing"})
	return errors.Join(
		ollamaRefused(ctx, http.StatusNotFound, "model 'missing' not found", chatOf("missing", "x")),
		ollamaRefused(ctx, http.StatusBadRequest, "model is required", chatOf("", "x")),
		ollamaRefused(ctx, http.StatusBadRequest, "does not support chat", chatOf(nomic, "x")),
		ollamaRefused(ctx, http.StatusBadRequest, "does not support tools", withTool),
		ollamaRefused(ctx, http.StatusInternalServerError, `option "num_ctx" must be of type integer`, wrongOption),
		isStatus(shown, http.StatusNotFound, "model 'missing' not found"))
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// Models of the simulator: one that reasons, and one that does not.
const (
	reasoning = "gpt-5"
	plain     = "gpt-4.1"
)

// completionsScenarios examine the APIs of OpenAI at the simulator, which is at the address that
// perigee has in the other scenarios.
func completionsScenarios() []scenario {
	return []scenario{
		{"question", inTurn(completionsQuestion, completionsResponse)},
		{"tool loop", func(ctx context.Context) error {
			return errors.Join(chatLoop(ctx, plain, openOne, "north"), responsesLoop(ctx, reasoning, true, openOne, "north"))
		}},
		{"parallel tools", func(ctx context.Context) error {
			return errors.Join(chatLoop(ctx, reasoning, openTwo, "north", "south"), responsesLoop(ctx, reasoning, false, openTwo, "north", "south"))
		}},
		{"thinking", completionsReasoning},
		{"custom tool", completionsCustom},
		{"structured output", completionsSchema},
		{"tokens and models", completionsModels},
		{"error", inTurn(completionsErrors, responseErrors)},
	}
}

// wholeAndStreamed asks Chat for a whole answer and for a stream, which must have the same choices.
func wholeAndStreamed(ctx context.Context, body openai.ChatCompletionNewParams, finish string) (*openai.ChatCompletion, error) {
	client := openaiClient(simulated, key)
	whole, err := client.Chat.Completions.New(ctx, body)
	if err != nil {
		return nil, err
	}
	streamed, err := chatStream(ctx, client, body)
	if err != nil {
		return nil, err
	}
	if len(whole.Choices) != len(streamed.Choices) {
		return nil, fmt.Errorf("%d choices, %d streamed", len(whole.Choices), len(streamed.Choices))
	}
	for i, choice := range whole.Choices {
		other := streamed.Choices[i]
		if choice.FinishReason != finish || other.FinishReason != finish || choice.Message.Content != other.Message.Content || choice.Message.Refusal != other.Message.Refusal {
			return nil, fmt.Errorf("want %s: whole %s, streamed %s %q", finish, choice.RawJSON(), other.FinishReason, other.Message.Content)
		}
	}
	if whole.Usage.CompletionTokens != streamed.Usage.CompletionTokens {
		return nil, fmt.Errorf("%d tokens, %d streamed", whole.Usage.CompletionTokens, streamed.Usage.CompletionTokens)
	}
	return whole, nil
}

func completionsQuestion(ctx context.Context) error {
	wanted := newToken()
	body := chatBody(plain, openai.SystemMessage("be short"), openai.UserMessage("[[text: it is "+wanted+" and more than six words]]"))
	body.N = openai.Int(2)
	answer, err := wholeAndStreamed(ctx, body, "stop")
	if err != nil {
		return err
	}
	if len(answer.Choices) != 2 {
		return fmt.Errorf("%d choices", len(answer.Choices))
	}
	if err := holds(answer.Choices[1].Message.Content, wanted); err != nil {
		return err
	}
	short := chatBody(plain, openai.UserMessage("[[tokens: 50]]"))
	short.MaxTokens = openai.Int(3)
	if _, err = wholeAndStreamed(ctx, short, "length"); err != nil {
		return err
	}
	refused, err := wholeAndStreamed(ctx, chatBody(plain, openai.UserMessage("[[block]]")), "stop")
	if err == nil && refused.Choices[0].Message.Refusal == "" {
		err = errors.New("no refusal")
	}
	return err
}

func completionsResponse(ctx context.Context) error {
	client, wanted := openaiClient(simulated, key), newToken()
	body := responsesBody(plain, userItem("[[text: it is "+wanted+" and more than six words]]"))
	whole, err := client.Responses.New(ctx, body)
	if err != nil {
		return err
	}
	streamed, err := responsesStream(ctx, client, body)
	if err != nil {
		return err
	}
	if whole.Status != responses.ResponseStatusCompleted || whole.OutputText() != streamed.OutputText() || whole.Usage.TotalTokens != streamed.Usage.TotalTokens {
		return fmt.Errorf("whole %s, streamed %s", whole.RawJSON(), streamed.RawJSON())
	}
	if stored, err := client.Responses.Get(ctx, whole.ID, responses.ResponseGetParams{}); err != nil || stored.OutputText() != whole.OutputText() {
		return fmt.Errorf("stored: %v", err)
	}
	if err := client.Responses.Delete(ctx, whole.ID); err != nil {
		return err
	}
	if err := holds(whole.OutputText(), wanted); err != nil {
		return err
	}
	short := responsesBody(plain, userItem("[[tokens: 50]]"))
	short.MaxOutputTokens = openai.Int(16)
	cut, err := client.Responses.New(ctx, short)
	if err != nil || cut.Status != responses.ResponseStatusIncomplete || cut.IncompleteDetails.Reason != "max_output_tokens" {
		return fmt.Errorf("incomplete: %v", err)
	}
	return nil
}

// completionsReasoning carries sealed reasoning through two rounds without state at the server.
func completionsReasoning(ctx context.Context) error {
	client, v := openaiClient(simulated, key), &vault{}
	body := responsesBody(reasoning, userItem(openOne+` [[then]] [[think: once more]] [[call: open_vault {"vault": "south"}]]`))
	body.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction(vaultName, vaultSchema(), false)}
	body.Store = openai.Bool(false)
	body.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	body.Reasoning = shared.ReasoningParam{Effort: shared.ReasoningEffortLow, Summary: shared.ReasoningSummaryAuto}
	for round := range 3 {
		answer, err := responsesStream(ctx, client, body)
		if err != nil {
			return err
		}
		if round == 2 {
			return v.quoted(answer.OutputText(), "north", "south")
		}
		thought := answer.Output[0].AsReasoning()
		if len(thought.Summary) != 1 || thought.EncryptedContent == "" || answer.Usage.OutputTokensDetails.ReasoningTokens == 0 {
			return fmt.Errorf("no reasoning in %s", answer.RawJSON())
		}
		for _, item := range answer.Output {
			body.Input.OfInputItemList = append(body.Input.OfInputItemList, param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(item.RawJSON())))
		}
		call := answer.Output[1].AsFunctionCall()
		result, err := v.openJSON(call.Arguments)
		if err != nil {
			return err
		}
		if round == 1 { // the answer quotes the results of the last round only
			result = "in north is " + v.held["north"] + ", " + result
		}
		output := responses.ResponseInputItemParamOfFunctionCallOutput(result)
		output.OfFunctionCallOutput.CallID = openai.String(call.CallID)
		body.Input.OfInputItemList = append(body.Input.OfInputItemList, output)
	}
	return nil
}

// completionsCustom calls a tool that takes text, over both APIs.
func completionsCustom(ctx context.Context) error {
	client := openaiClient(simulated, key)
	const prompt, want = `[[call: patch {"input": "*** Begin"}]]`, "*** Begin"
	body := responsesBody(reasoning, userItem(prompt))
	body.Tools = []responses.ToolUnionParam{{OfCustom: &responses.CustomToolParam{Name: "patch"}}}
	answer, err := responsesStream(ctx, client, body)
	if err != nil {
		return err
	}
	if call := answer.Output[1].AsCustomToolCall(); call.Input != want || call.Name != "patch" {
		return fmt.Errorf("%s", answer.RawJSON())
	}
	chat := chatBody(reasoning, openai.UserMessage(prompt))
	chat.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionCustomTool(openai.ChatCompletionCustomToolCustomParam{Name: "patch"})}
	whole, err := client.Chat.Completions.New(ctx, chat)
	if err != nil {
		return err
	}
	if call := whole.Choices[0].Message.ToolCalls[0]; call.Type != "custom" || call.Custom.Input != want {
		return fmt.Errorf("%s", whole.RawJSON())
	}
	return nil
}

// completionsSchema wants JSON that fits a schema.
func completionsSchema(ctx context.Context) error {
	client := openaiClient(simulated, key)
	schema := map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}, "additionalProperties": false}
	body := chatBody(plain, openai.UserMessage("where"))
	body.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "place", Schema: schema, Strict: openai.Bool(true)}}
	answer, err := client.Chat.Completions.New(ctx, body)
	if err != nil {
		return err
	}
	var place struct{ City *string }
	if err := json.Unmarshal([]byte(answer.Choices[0].Message.Content), &place); err != nil || place.City == nil {
		return fmt.Errorf("%v: %s", err, answer.Choices[0].Message.Content)
	}
	schema["additionalProperties"] = true
	_, err = client.Chat.Completions.New(ctx, body)
	return wantRefusal(err, 400, "", "response_format")
}

func completionsModels(ctx context.Context) error {
	client := openaiClient(simulated, key)
	var names []string
	pages := client.Models.ListAutoPaging(ctx)
	for pages.Next() {
		names = append(names, pages.Current().ID)
	}
	if err := pages.Err(); err != nil || !slices.Contains(names, reasoning) {
		return fmt.Errorf("models %v: %v", names, err)
	}
	if m, err := client.Models.Get(ctx, plain); err != nil || m.ID != plain {
		return fmt.Errorf("model: %v", err)
	}
	count, err := client.Responses.InputTokens.Count(ctx, responses.InputTokenCountParams{Model: openai.String(plain),
		Input: responses.InputTokenCountParamsInputUnion{OfString: openai.String("how many tokens is this")}})
	if err != nil || count.InputTokens == 0 {
		return fmt.Errorf("tokens: %v", err)
	}
	vectors, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: openai.EmbeddingModelTextEmbedding3Small, Dimensions: openai.Int(8),
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}}})
	if err != nil || len(vectors.Data) != 2 || len(vectors.Data[1].Embedding) != 8 {
		return fmt.Errorf("embeddings: %v", err)
	}
	images, err := client.Images.Generate(ctx, openai.ImageGenerateParams{Model: openai.ImageModelGPTImage1, Prompt: "a boat"})
	if err != nil || images.Data[0].B64JSON == "" {
		return fmt.Errorf("images: %v", err)
	}
	return nil
}

// wantRefusal wants an error of the SDK with a status, a code and a parameter.
func wantRefusal(err error, status int, code, parameter string) error {
	e, ok := errors.AsType[*openai.Error](err)
	if !ok || e.StatusCode != status || e.Code != code || e.Param != parameter || e.Message == "" || e.Type == "" {
		return fmt.Errorf("expected %d %q for %q, got %v", status, code, parameter, err)
	}
	return nil
}

func completionsErrors(ctx context.Context) error {
	client := openaiClient(simulated, key)
	ask := func(change func(*openai.ChatCompletionNewParams)) error {
		body := chatBody(reasoning, openai.UserMessage("hello"))
		change(&body)
		_, err := client.Chat.Completions.New(ctx, body)
		return err
	}
	without := openaiClient(simulated, "")
	_, unkeyed := without.Chat.Completions.New(ctx, chatBody(reasoning, openai.UserMessage("hello")))
	return errors.Join(
		wantRefusal(ask(func(b *openai.ChatCompletionNewParams) { b.Model = "gpt-99" }), 404, "model_not_found", ""),
		wantRefusal(ask(func(b *openai.ChatCompletionNewParams) { b.MaxTokens = openai.Int(5) }), 400, "unsupported_parameter", "max_tokens"),
		wantRefusal(ask(func(b *openai.ChatCompletionNewParams) { b.Temperature = openai.Float(0.5) }), 400, "unsupported_value", "temperature"),
		wantRefusal(ask(func(b *openai.ChatCompletionNewParams) {
			b.Messages = append(b.Messages, openai.ToolMessage("x", "call_1"))
		}), 400, "", "messages.[1].role"),
		wantRefusal(unkeyed, 401, "invalid_api_key", ""))
}

func responseErrors(ctx context.Context) error {
	client := openaiClient(simulated, key)
	ask := func(change func(*responses.ResponseNewParams)) error {
		body := responsesBody(reasoning, userItem("hello"))
		change(&body)
		_, err := client.Responses.New(ctx, body)
		return err
	}
	item := func(raw string) func(*responses.ResponseNewParams) {
		return func(b *responses.ResponseNewParams) {
			b.Store = openai.Bool(false)
			b.Input.OfInputItemList = append(b.Input.OfInputItemList, param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(raw)), userItem("again"))
		}
	}
	return errors.Join(
		wantRefusal(ask(func(b *responses.ResponseNewParams) { b.MaxOutputTokens = openai.Int(5) }), 400, "integer_below_min_value", "max_output_tokens"),
		wantRefusal(ask(func(b *responses.ResponseNewParams) { b.PreviousResponseID = openai.String("resp_1") }), 400, "previous_response_not_found", "previous_response_id"),
		wantRefusal(ask(func(b *responses.ResponseNewParams) { b.Include = []responses.ResponseIncludable{"all"} }), 400, "invalid_value", "include[0]"),
		wantRefusal(ask(item(`{"type":"reasoning","id":"rs_1","summary":[]}`)), 404, "", "input"),
		wantRefusal(ask(item(`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAA"}`)), 400, "invalid_encrypted_content", "input"),
		wantRefusal(ask(item(`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`)), 400, "", "input"))
}

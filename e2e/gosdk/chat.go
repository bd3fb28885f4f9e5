package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

func openaiClient(base, key string) openai.Client {
	return openai.NewClient(option.WithBaseURL(base+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func chatScenarios() []scenario {
	return []scenario{
		{"question", chatQuestion},
		{"tool loop", func(ctx context.Context) error { return chatLoop(ctx, model, openOne, "north") }},
		{"parallel tools", func(ctx context.Context) error { return chatLoop(ctx, model, openTwo, "north", "south") }},
		{"image", chatImage},
		{"error", chatError},
		{"used-up quota", openaiUsedUp(func(ctx context.Context, client openai.Client) error {
			_, err := client.Chat.Completions.New(ctx, chatBody(spent, openai.UserMessage("hello")))
			return err
		})},
		{"rate limit", func(ctx context.Context) error {
			client := openaiClient(watched, limitedKey)
			return openaiLimit(func() error {
				_, err := client.Chat.Completions.New(ctx, chatBody(model, openai.UserMessage("hello")))
				return err
			})
		}},
	}
}

func chatBody(model string, messages ...openai.ChatCompletionMessageParamUnion) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: messages}
}

func chatQuestion(ctx context.Context) error {
	client := openaiClient(simulated, key)
	wanted := newToken()
	body := chatBody(model, openai.UserMessage("[[text: it is "+wanted+"]] "+slowly))
	whole, err := client.Chat.Completions.New(ctx, body)
	if err != nil {
		return err
	}
	if whole.Usage.TotalTokens == 0 {
		return errors.New("no usage")
	}
	if err := holds(whole.Choices[0].Message.Content, wanted); err != nil {
		return err
	}
	streamed, err := chatStream(ctx, client, body)
	if err != nil {
		return err
	}
	return holds(streamed.Choices[0].Message.Content, wanted)
}

// chatStream collects with the SDK's accumulator, which refuses chunks that do not belong together.
func chatStream(ctx context.Context, client openai.Client, body openai.ChatCompletionNewParams) (*openai.ChatCompletion, error) {
	body.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := client.Chat.Completions.NewStreaming(ctx, body)
	defer stream.Close()
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		if !all.AddChunk(stream.Current()) {
			return nil, fmt.Errorf("the accumulator refuses %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	if all.Usage.TotalTokens == 0 {
		return nil, errors.New("no usage at the end of the stream")
	}
	return &all.ChatCompletion, nil
}

func chatLoop(ctx context.Context, model, prompt string, names ...string) error {
	client, v := openaiClient(simulated, key), &vault{}
	body := chatBody(model, openai.UserMessage(prompt))
	body.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: vaultName, Description: openai.String(vaultAbout), Parameters: vaultSchema(),
	})}
	first, err := chatStream(ctx, client, body)
	if err != nil {
		return err
	}
	if reason := first.Choices[0].FinishReason; reason != "tool_calls" {
		return fmt.Errorf("finish_reason is %s", reason)
	}
	message := first.Choices[0].Message
	body.Messages = append(body.Messages, message.ToParam())
	for _, call := range message.ToolCalls {
		result, err := v.openJSON(call.Function.Arguments)
		if err != nil {
			return err
		}
		body.Messages = append(body.Messages, openai.ToolMessage(result, call.ID))
	}
	last, err := chatStream(ctx, client, body)
	if err != nil {
		return err
	}
	return v.quoted(last.Choices[0].Message.Content, names...)
}

func chatImage(ctx context.Context) error {
	client := openaiClient(watched, key)
	url := openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64," + picture}
	answer, err := client.Chat.Completions.New(ctx, chatBody(model, openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
		openai.ImageContentPart(url), openai.TextContentPart("[[text: seen]]"),
	})))
	if err != nil {
		return err
	}
	if err := holds(answer.Choices[0].Message.Content, "seen"); err != nil {
		return err
	}
	return pictureArrived(ctx)
}

func chatError(ctx context.Context) error {
	client := openaiClient(simulated, key)
	body := chatBody(missing, openai.UserMessage("hello"))
	if _, err := client.Chat.Completions.New(ctx, body); !openaiNotFound(err) {
		return fmt.Errorf("expected 404 with the nearest name, got %v", err)
	}
	if _, err := chatStream(ctx, client, body); !openaiNotFound(err) {
		return fmt.Errorf("streaming: expected 404 with the nearest name, got %v", err)
	}
	return nil
}

func openaiNotFound(err error) bool {
	e, ok := errors.AsType[*openai.Error](err)
	return ok && e.StatusCode == 404 && e.Code == "not_found" && holds(e.Message, model) == nil
}

// openaiUsedUp makes a call for quota that is used up.
func openaiUsedUp(call func(context.Context, openai.Client) error) func(context.Context) error {
	return func(ctx context.Context) error {
		client := openai.NewClient(option.WithBaseURL(watched+"/v1"), option.WithAPIKey(key))
		err := promptly(ctx, func(ctx context.Context) error { return call(ctx, client) })
		if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != 429 {
			return fmt.Errorf("expected 429, got %v", err)
		}
		return nil
	}
}

// openaiLimit calls twice with a key that is good for one call.
func openaiLimit(call func() error) error {
	if err := call(); err != nil {
		return err
	}
	err := call()
	e, ok := errors.AsType[*openai.Error](err)
	if !ok || e.StatusCode != 429 || e.Response.Header.Get("Retry-After") == "" {
		return fmt.Errorf("expected 429 with Retry-After, got %v", err)
	}
	return nil
}

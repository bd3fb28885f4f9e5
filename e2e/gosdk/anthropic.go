package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/toolrunner"
)

func anthropicClient(base, key string) anthropic.Client {
	return anthropic.NewClient(option.WithBaseURL(base), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func anthropicScenarios() []scenario {
	loop := func(model, prompt string, thinking bool, names ...string) func(context.Context) error {
		return func(ctx context.Context) error { return anthropicLoop(ctx, model, prompt, thinking, names...) }
	}
	return []scenario{
		{"question", anthropicQuestion},
		{"tool loop", inTurn(loop(model, openOne, true, "north"), loop(claude, openOne, true, "north"))},
		{"parallel tools", inTurn(loop(model, openTwo, false, "north", "south"), loop(claude, openTwo, false, "north", "south"))},
		{"tool runner", anthropicRunner},
		{"image", anthropicImage},
		{"error", anthropicError},
		{"rate limit", anthropicLimit},
		{"used-up quota", anthropicUsedUp},
	}
}

func anthropicBody(model string, blocks ...anthropic.ContentBlockParamUnion) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{Model: model, MaxTokens: 2048, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(blocks...)}}
}

func anthropicText(message *anthropic.Message) (text string) {
	for _, block := range message.Content {
		text += block.Text
	}
	return text
}

func anthropicQuestion(ctx context.Context) error {
	client := anthropicClient(simulated, key)
	wanted := newToken()
	body := anthropicBody(claude, anthropic.NewTextBlock("[[text: it is "+wanted+"]] "+slowly))
	whole, err := client.Messages.New(ctx, body)
	if err != nil {
		return err
	}
	if whole.StopReason != anthropic.StopReasonEndTurn || whole.Usage.OutputTokens == 0 {
		return fmt.Errorf("stop_reason is %s, output_tokens %d", whole.StopReason, whole.Usage.OutputTokens)
	}
	if err := holds(anthropicText(whole), wanted); err != nil {
		return err
	}
	streamed, err := anthropicStream(ctx, client, body)
	if err != nil {
		return err
	}
	return holds(anthropicText(streamed), wanted)
}

// anthropicStream collects with the SDK's accumulator, which refuses events out of order.
func anthropicStream(ctx context.Context, client anthropic.Client, body anthropic.MessageNewParams) (*anthropic.Message, error) {
	stream := client.Messages.NewStreaming(ctx, body)
	defer stream.Close()
	var all anthropic.Message
	ended := false
	for stream.Next() {
		event := stream.Current()
		if err := all.Accumulate(event); err != nil {
			return nil, fmt.Errorf("the accumulator refuses %s: %w", event.RawJSON(), err)
		}
		ended = event.Type == "message_stop"
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	if !ended {
		return nil, errors.New("the stream ended without message_stop")
	}
	return &all, nil
}

func anthropicLoop(ctx context.Context, model, prompt string, thinking bool, names ...string) error {
	client, v := anthropicClient(simulated, key), &vault{}
	body := anthropicBody(model, anthropic.NewTextBlock(prompt))
	body.Tools = []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{
		Properties: vaultProperties, Required: []string{"vault"},
	}, vaultName)}
	if thinking {
		body.Thinking = anthropic.ThinkingConfigParamOfEnabled(1024)
	}
	first, err := anthropicStream(ctx, client, body)
	if err != nil {
		return err
	}
	if first.StopReason != anthropic.StopReasonToolUse {
		return fmt.Errorf("stop_reason is %s", first.StopReason)
	}
	var results []anthropic.ContentBlockParamUnion
	for _, block := range first.Content {
		if use, ok := block.AsAny().(anthropic.ToolUseBlock); ok {
			result, err := v.openJSON(string(use.Input))
			if err != nil {
				return err
			}
			results = append(results, anthropic.NewToolResultBlock(use.ID, result, false))
		}
	}
	body.Messages = append(body.Messages, first.ToParam(), anthropic.NewUserMessage(results...))
	last, err := anthropicStream(ctx, client, body)
	if err != nil {
		return err
	}
	return v.quoted(anthropicText(last), names...)
}

func anthropicRunner(ctx context.Context) error {
	client, v := anthropicClient(simulated, key), &vault{}
	schema, err := json.Marshal(vaultSchema())
	if err != nil {
		return err
	}
	tool, err := toolrunner.NewBetaToolFromBytes(vaultName, vaultAbout, schema,
		func(_ context.Context, input vaultInput) (anthropic.BetaToolResultBlockParamContentUnion, error) {
			return anthropic.BetaToolResultBlockParamContentUnion{OfText: &anthropic.BetaTextBlockParam{Text: v.open(input.Vault)}}, nil
		})
	if err != nil {
		return err
	}
	runner := client.Beta.Messages.NewToolRunner([]anthropic.BetaTool{tool}, anthropic.BetaToolRunnerParams{
		BetaMessageNewParams: anthropic.BetaMessageNewParams{
			Model: claude, MaxTokens: 500, Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock(openTwo))},
		},
		MaxIterations: 4,
	})
	last, err := runner.RunToCompletion(ctx)
	if err != nil {
		return err
	}
	text := ""
	for _, block := range last.Content {
		text += block.Text
	}
	return v.quoted(text, "north", "south")
}

func anthropicImage(ctx context.Context) error {
	client := anthropicClient(watched, key)
	answer, err := client.Messages.New(ctx, anthropicBody(model, anthropic.NewImageBlockBase64("image/png", picture), anthropic.NewTextBlock("[[text: seen]]")))
	if err != nil {
		return err
	}
	if err := holds(anthropicText(answer), "seen"); err != nil {
		return err
	}
	return pictureArrived(ctx)
}

func anthropicError(ctx context.Context) error {
	client := anthropicClient(simulated, key)
	body := anthropicBody(missing, anthropic.NewTextBlock("hello"))
	notFound := func(err error) bool {
		e, ok := errors.AsType[*anthropic.Error](err)
		return ok && e.StatusCode == 404 && e.Type() == anthropic.ErrorTypeNotFoundError && holds(e.Error(), model) == nil
	}
	if _, err := client.Messages.New(ctx, body); !notFound(err) {
		return fmt.Errorf("expected 404 with the nearest name, got %v", err)
	}
	if _, err := anthropicStream(ctx, client, body); !notFound(err) {
		return fmt.Errorf("streaming: expected 404 with the nearest name, got %v", err)
	}
	return nil
}

func anthropicLimit(ctx context.Context) error {
	client := anthropicClient(watched, limitedKey)
	body := anthropicBody(model, anthropic.NewTextBlock("hello"))
	if _, err := client.Messages.New(ctx, body); err != nil {
		return err
	}
	_, err := client.Messages.New(ctx, body)
	e, ok := errors.AsType[*anthropic.Error](err)
	if !ok || e.StatusCode != 429 || e.Type() != anthropic.ErrorTypeRateLimitError || e.Response.Header.Get("Retry-After") == "" {
		return fmt.Errorf("expected 429 with Retry-After, got %v", err)
	}
	return nil
}

func anthropicUsedUp(ctx context.Context) error {
	client := anthropic.NewClient(option.WithBaseURL(watched), option.WithAPIKey(key))
	err := promptly(ctx, func(ctx context.Context) error {
		_, err := client.Messages.New(ctx, anthropicBody(spent, anthropic.NewTextBlock("hello")))
		return err
	})
	if e, ok := errors.AsType[*anthropic.Error](err); !ok || e.StatusCode != 429 {
		return fmt.Errorf("expected 429, got %v", err)
	}
	return nil
}

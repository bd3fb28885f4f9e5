package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
)

func responsesScenarios() []scenario {
	return []scenario{
		{"question", responsesQuestion},
		{"tool loop", func(ctx context.Context) error { return responsesLoop(ctx, model, true, openOne, "north") }},
		{"parallel tools", func(ctx context.Context) error { return responsesLoop(ctx, model, false, openTwo, "north", "south") }},
		{"image", responsesImage},
		{"error", responsesError},
		{"used-up quota", openaiUsedUp(func(ctx context.Context, client openai.Client) error {
			_, err := client.Responses.New(ctx, responsesBody(spent, userItem("hello")))
			return err
		})},
		{"rate limit", func(ctx context.Context) error {
			client := openaiClient(watched, limitedKey)
			return openaiLimit(func() error {
				_, err := client.Responses.New(ctx, responsesBody(model, userItem("hello")))
				return err
			})
		}},
	}
}

func userItem(text string) responses.ResponseInputItemUnionParam {
	return responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser)
}

func responsesBody(model string, items ...responses.ResponseInputItemUnionParam) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{OfInputItemList: items}}
}

func responsesQuestion(ctx context.Context) error {
	client := openaiClient(simulated, key)
	wanted := newToken()
	body := responsesBody(model, userItem("[[text: it is "+wanted+"]] "+slowly))
	whole, err := client.Responses.New(ctx, body)
	if err != nil {
		return err
	}
	if whole.Usage.TotalTokens == 0 {
		return errors.New("no usage")
	}
	if err := holds(whole.OutputText(), wanted); err != nil {
		return err
	}
	streamed, err := responsesStream(ctx, client, body)
	if err != nil {
		return err
	}
	return holds(streamed.OutputText(), wanted)
}

// responsesStream returns the response of the last event, after checking that the deltas before it
// add up.
func responsesStream(ctx context.Context, client openai.Client, body responses.ResponseNewParams) (*responses.Response, error) {
	stream := client.Responses.NewStreaming(ctx, body)
	defer stream.Close()
	var text string
	var sequence int64
	for stream.Next() {
		event := stream.Current()
		if event.SequenceNumber < sequence {
			return nil, fmt.Errorf("sequence_number went back in %s", event.RawJSON())
		}
		sequence = event.SequenceNumber
		switch event := event.AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			text += event.Delta
		case responses.ResponseCompletedEvent:
			if text != event.Response.OutputText() {
				return nil, fmt.Errorf("the deltas add up to %q, the response has %q", text, event.Response.OutputText())
			}
			return &event.Response, nil
		}
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	return nil, errors.New("the stream ended without response.completed")
}

// responsesLoop keeps the history at the server, or sends everything again.
func responsesLoop(ctx context.Context, model string, stored bool, prompt string, names ...string) error {
	client, v := openaiClient(simulated, key), &vault{}
	body := responsesBody(model, userItem(prompt))
	body.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction(vaultName, vaultSchema(), false)}
	if !stored {
		body.Store = openai.Bool(false)
		body.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	first, err := responsesStream(ctx, client, body)
	if err != nil {
		return err
	}
	var items []responses.ResponseInputItemUnionParam
	if stored {
		body.PreviousResponseID = openai.String(first.ID)
	} else {
		items = body.Input.OfInputItemList
		for _, item := range first.Output {
			items = append(items, param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(item.RawJSON())))
		}
	}
	for _, item := range first.Output {
		if item.Type != "function_call" {
			continue
		}
		result, err := v.openJSON(item.AsFunctionCall().Arguments)
		if err != nil {
			return err
		}
		output := responses.ResponseInputItemParamOfFunctionCallOutput(result)
		output.OfFunctionCallOutput.CallID = openai.String(item.CallID)
		items = append(items, output)
	}
	body.Input.OfInputItemList = items
	last, err := responsesStream(ctx, client, body)
	if err != nil {
		return err
	}
	return v.quoted(last.OutputText(), names...)
}

func responsesImage(ctx context.Context) error {
	client := openaiClient(watched, key)
	content := responses.ResponseInputMessageContentListParam{
		{OfInputText: &responses.ResponseInputTextParam{Text: "[[text: seen]]"}},
		{OfInputImage: &responses.ResponseInputImageParam{ImageURL: openai.String("data:image/png;base64," + picture), Detail: "auto"}},
	}
	answer, err := client.Responses.New(ctx, responsesBody(model, responses.ResponseInputItemParamOfMessage(content, responses.EasyInputMessageRoleUser)))
	if err != nil {
		return err
	}
	if err := holds(answer.OutputText(), "seen"); err != nil {
		return err
	}
	return pictureArrived(ctx)
}

func responsesError(ctx context.Context) error {
	client := openaiClient(simulated, key)
	body := responsesBody(missing, userItem("hello"))
	if _, err := client.Responses.New(ctx, body); !openaiNotFound(err) {
		return fmt.Errorf("expected 404 with the nearest name, got %v", err)
	}
	if _, err := responsesStream(ctx, client, body); !openaiNotFound(err) {
		return fmt.Errorf("streaming: expected 404 with the nearest name, got %v", err)
	}
	return nil
}

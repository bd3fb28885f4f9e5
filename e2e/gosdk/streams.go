package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

// streamScenarios are streams in trouble. ask returns the text that a program sees, also when it
// fails.
func streamScenarios(ask func(ctx context.Context, prompt string) (string, error)) []scenario {
	return []scenario{
		{"broken stream", func(ctx context.Context) error {
			wanted := newToken()
			text, err := ask(ctx, "[[text: one two three four five six "+wanted+"]] [[chunks: 7]] cut every "+wanted)
			switch {
			case err == nil:
				return fmt.Errorf("the stream ends as if it were complete: %q", text)
			case strings.Contains(text, wanted):
				return fmt.Errorf("all of the text came: %q", text)
			case !strings.Contains(err.Error(), "shaky"):
				return fmt.Errorf("the error does not say what perigee said: %w", err)
			}
			return nil
		}},
		{"silent stream", func(ctx context.Context) error {
			wanted := newToken()
			text, err := ask(ctx, "[[text: it is "+wanted+"]] [[chunks: 2]] [[pace: 20s]] think long "+wanted)
			if err == nil && text != "it is "+wanted {
				err = fmt.Errorf("the answer is %q", text)
			}
			return err
		}},
	}
}

func askChat(ctx context.Context, prompt string) (text string, err error) {
	client := openaiClient(shaky, key)
	stream := client.Chat.Completions.NewStreaming(ctx, chatBody(model, openai.UserMessage(prompt)))
	defer stream.Close()
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			text += choice.Delta.Content
		}
	}
	return text, stream.Err()
}

func askResponses(ctx context.Context, prompt string) (text string, err error) {
	client := openaiClient(shaky, key)
	stream := client.Responses.NewStreaming(ctx, responsesBody(model, userItem(prompt)))
	defer stream.Close()
	for stream.Next() {
		switch event := stream.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			text += event.Delta
		case responses.ResponseFailedEvent: // as the API has it: an event, and no error of the stream
			return text, errors.New(event.Response.Error.Message)
		}
	}
	return text, stream.Err()
}

func askAnthropic(ctx context.Context, prompt string) (text string, err error) {
	client := anthropicClient(shaky, key)
	stream := client.Messages.NewStreaming(ctx, anthropicBody(model, anthropic.NewTextBlock(prompt)))
	defer stream.Close()
	for stream.Next() {
		text += stream.Current().Delta.Text
	}
	return text, stream.Err()
}

func askGenai(ctx context.Context, prompt string) (text string, err error) {
	client, err := genaiClient(ctx, shaky, key)
	if err != nil {
		return "", err
	}
	for chunk, err := range client.Models.GenerateContentStream(ctx, model, genai.Text(prompt), nil) {
		if err != nil {
			return text, err
		}
		text += chunk.Text()
	}
	return text, nil
}

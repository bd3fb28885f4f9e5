package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"google.golang.org/genai"
)

func genaiClient(ctx context.Context, base, key string) (*genai.Client, error) {
	return genai.NewClient(ctx, &genai.ClientConfig{APIKey: key, Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: base}})
}

func genaiScenarios() []scenario {
	loop := func(model, prompt string, names ...string) func(context.Context) error {
		return func(ctx context.Context) error { return genaiLoop(ctx, model, prompt, names...) }
	}
	return []scenario{
		{"question", genaiQuestion},
		{"tool loop", inTurn(loop(model, openOne, "north"), loop(older, openOne, "north"))},
		{"parallel tools", inTurn(loop(model, openTwo, "north", "south"), loop(older, openTwo, "north", "south"))},
		{"image", genaiImage},
		{"error", genaiError},
		{"rate limit", genaiLimit},
		{"used-up quota", genaiUsedUp},
	}
}

func genaiQuestion(ctx context.Context) error {
	client, err := genaiClient(ctx, simulated, key)
	if err != nil {
		return err
	}
	wanted := newToken()
	contents := genai.Text("[[text: it is " + wanted + "]] " + slowly)
	whole, err := client.Models.GenerateContent(ctx, model, contents, nil)
	if err != nil {
		return err
	}
	if whole.UsageMetadata == nil || whole.UsageMetadata.TotalTokenCount == 0 {
		return errors.New("no usage")
	}
	if err := holds(whole.Text(), wanted); err != nil {
		return err
	}
	text := ""
	for chunk, err := range client.Models.GenerateContentStream(ctx, model, contents, nil) {
		if err != nil {
			return err
		}
		text += chunk.Text()
	}
	return holds(text, wanted)
}

// genaiAsk begins a chat with a tool, and returns it with the results of the calls.
func genaiAsk(ctx context.Context, client *genai.Client, v *vault, model, prompt string) (*genai.Chat, []genai.Part, error) {
	chat, err := client.Chats.Create(ctx, model, &genai.GenerateContentConfig{
		Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{
			{Name: vaultName, Description: vaultAbout, ParametersJsonSchema: vaultSchema()},
		}}},
		ThinkingConfig: &genai.ThinkingConfig{IncludeThoughts: true},
	}, nil)
	if err != nil {
		return nil, nil, err
	}
	var results []genai.Part
	for chunk, err := range chat.SendMessageStream(ctx, genai.Part{Text: prompt}) {
		if err != nil {
			return nil, nil, err
		}
		for _, call := range chunk.FunctionCalls() {
			name, _ := call.Args["vault"].(string)
			results = append(results, genai.Part{FunctionResponse: &genai.FunctionResponse{
				ID: call.ID, Name: call.Name, Response: map[string]any{"output": v.open(name)},
			}})
		}
	}
	return chat, results, nil
}

// genaiLoop is a chat, whose history holds one model turn for each chunk of the stream.
func genaiLoop(ctx context.Context, model, prompt string, names ...string) error {
	client, err := genaiClient(ctx, simulated, key)
	if err != nil {
		return err
	}
	v := &vault{}
	chat, results, err := genaiAsk(ctx, client, v, model, prompt)
	if err != nil {
		return err
	}
	text := ""
	for chunk, err := range chat.SendMessageStream(ctx, results...) {
		if err != nil {
			return err
		}
		text += chunk.Text()
	}
	return v.quoted(text, names...)
}

func genaiImage(ctx context.Context) error {
	client, err := genaiClient(ctx, watched, key)
	if err != nil {
		return err
	}
	data, err := base64.StdEncoding.DecodeString(picture)
	if err != nil {
		return err
	}
	contents := []*genai.Content{genai.NewContentFromParts([]*genai.Part{
		genai.NewPartFromBytes(data, "image/png"), genai.NewPartFromText("[[text: seen]]"),
	}, genai.RoleUser)}
	answer, err := client.Models.GenerateContent(ctx, model, contents, nil)
	if err != nil {
		return err
	}
	if err := holds(answer.Text(), "seen"); err != nil {
		return err
	}
	return pictureArrived(ctx)
}

func genaiError(ctx context.Context) error {
	client, err := genaiClient(ctx, simulated, key)
	if err != nil {
		return err
	}
	_, err = client.Models.GenerateContent(ctx, missing, genai.Text("hello"), nil)
	e, ok := errors.AsType[genai.APIError](err)
	if !ok || e.Code != 404 || e.Status != "NOT_FOUND" {
		return fmt.Errorf("expected 404, got %v", err)
	}
	return holds(e.Message, model)
}

func genaiLimit(ctx context.Context) error {
	client, err := genaiClient(ctx, watched, limitedKey)
	if err != nil {
		return err
	}
	if _, err := client.Models.GenerateContent(ctx, model, genai.Text("hello"), nil); err != nil {
		return err
	}
	_, err = client.Models.GenerateContent(ctx, model, genai.Text("hello"), nil)
	e, ok := errors.AsType[genai.APIError](err)
	if !ok || e.Code != 429 || e.Status != "RESOURCE_EXHAUSTED" {
		return fmt.Errorf("expected 429, got %v", err)
	}
	return nil
}

func genaiUsedUp(ctx context.Context) error {
	client, err := genaiClient(ctx, watched, key)
	if err != nil {
		return err
	}
	err = promptly(ctx, func(ctx context.Context) error {
		_, err := client.Models.GenerateContent(ctx, spent, genai.Text("hello"), nil)
		return err
	})
	if e, ok := errors.AsType[genai.APIError](err); !ok || e.Code != 429 {
		return fmt.Errorf("expected 429, got %v", err)
	}
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// socketScenarios ask for responses over a WebSocket, with nothing stored.
func socketScenarios() []scenario {
	return []scenario{
		{"question", socketQuestion},
		{"tool loop", func(ctx context.Context) error { return socketLoop(ctx, openOne, "north") }},
		{"parallel tools", func(ctx context.Context) error { return socketLoop(ctx, openTwo, "north", "south") }},
		{"image", socketImage},
		{"error", socketError},
		{"rate limit", socketLimit},
	}
}

// connected runs a conversation over a socket.
func connected(ctx context.Context, base, key string, converse func(*responses.ResponseConnection) error) error {
	client := openaiClient(base, key)
	conn, err := client.Responses.Connect(ctx, responses.ResponseConnectionOptions{})
	if err != nil {
		return err
	}
	return errors.Join(converse(conn), conn.Close())
}

func socketBody(model string, items ...responses.ResponseInputItemUnionParam) responses.ResponsesClientEventResponseCreateParam {
	input := responses.ResponseInputParam(items)
	return responses.ResponsesClientEventResponseCreateParam{
		Model: model, Store: openai.Bool(false),
		Input: responses.ResponsesClientEventResponseCreateInputUnionParam{OfResponse: &input},
	}
}

func socketQuestion(ctx context.Context) error {
	return connected(ctx, simulated, key, func(conn *responses.ResponseConnection) error {
		for range 2 {
			wanted := newToken()
			if err := conn.Create(ctx, socketBody(model, userItem("[[text: it is "+wanted+"]]"))); err != nil {
				return err
			}
			answer, err := conn.FinalResponse(ctx)
			if err != nil {
				return err
			}
			if err := holds(answer.OutputText(), wanted); err != nil {
				return err
			}
		}
		return nil
	})
}

// socketLoop sends only what is new with each turn. The second one goes to another lane, which
// starts where the first is.
func socketLoop(ctx context.Context, prompt string, names ...string) error {
	return connected(ctx, simulated, key, func(conn *responses.ResponseConnection) error {
		v := &vault{}
		body := socketBody(model, userItem(prompt))
		body.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction(vaultName, vaultSchema(), false)}
		first, err := onLane(ctx, conn, "main", body)
		if err != nil {
			return err
		}
		var results responses.ResponseInputParam
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
			results = append(results, output)
		}
		body.Input.OfResponse = &results
		body.PreviousResponseID = openai.String(first.ID)
		last, err := onLane(ctx, conn, "fork", body)
		if err != nil {
			return err
		}
		return v.quoted(last.OutputText(), names...)
	})
}

func onLane(ctx context.Context, conn *responses.ResponseConnection, name string, body responses.ResponsesClientEventResponseCreateParam) (*responses.Response, error) {
	lane, err := conn.Lane(name)
	if err != nil {
		return nil, err
	}
	defer lane.Close()
	body.StreamID = openai.String(name)
	if err := conn.Create(ctx, body); err != nil {
		return nil, err
	}
	return lane.FinalResponse(ctx)
}

func socketImage(ctx context.Context) error {
	return connected(ctx, watched, key, func(conn *responses.ResponseConnection) error {
		content := responses.ResponseInputMessageContentListParam{
			{OfInputText: &responses.ResponseInputTextParam{Text: "[[text: seen]]"}},
			{OfInputImage: &responses.ResponseInputImageParam{ImageURL: openai.String("data:image/png;base64," + picture), Detail: "auto"}},
		}
		body := socketBody(model, responses.ResponseInputItemParamOfMessage(content, responses.EasyInputMessageRoleUser))
		if err := conn.Create(ctx, body); err != nil {
			return err
		}
		answer, err := conn.FinalResponse(ctx)
		if err != nil {
			return err
		}
		if err := holds(answer.OutputText(), "seen"); err != nil {
			return err
		}
		return pictureArrived(ctx)
	})
}

// refusedWith checks the error event that an SDK's error holds.
func refusedWith(err error, status int, code string) error {
	e, ok := errors.AsType[*responses.ResponseProtocolError](err)
	if !ok {
		return fmt.Errorf("expected an error event, got %v", err)
	}
	var event struct {
		Status  int
		Error   struct{ Code, Message string }
		Headers map[string]string
	}
	if err := json.Unmarshal([]byte(e.Event.RawJSON()), &event); err != nil {
		return err
	}
	if event.Status != status || event.Error.Code != code {
		return fmt.Errorf("expected %d %s, got %s", status, code, e.Event.RawJSON())
	}
	if status == 429 && event.Headers["retry-after"] == "" {
		return errors.New("no retry-after")
	}
	if status == 404 {
		return holds(event.Error.Message, model)
	}
	return nil
}

func socketError(ctx context.Context) error {
	return connected(ctx, simulated, key, func(conn *responses.ResponseConnection) error {
		if err := conn.Create(ctx, socketBody(missing, userItem("hello"))); err != nil {
			return err
		}
		_, err := conn.FinalResponse(ctx)
		return refusedWith(err, 404, "not_found")
	})
}

func socketLimit(ctx context.Context) error {
	return connected(ctx, watched, limitedKey, func(conn *responses.ResponseConnection) error {
		if err := conn.Create(ctx, socketBody(model, userItem("hello"))); err != nil {
			return err
		}
		if _, err := conn.FinalResponse(ctx); err != nil {
			return err
		}
		if err := conn.Create(ctx, socketBody(model, userItem("hello"))); err != nil {
			return err
		}
		_, err := conn.FinalResponse(ctx)
		return refusedWith(err, 429, "rate_limit_exceeded")
	})
}

package lsclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
	geminicoder "perigee/gen/gemini_coder"

	"perigee"
)

// object is a request. Requests are written by hand and not from messages, because models have
// names that the language server reported, and some members have no published number.
type object = map[string]any

// do makes a call and decodes its answer into a message. A nil answer discards it.
func (c *Client) do(ctx context.Context, method string, limit time.Duration, request object, answer proto.Message) error {
	data, err := c.call(ctx, method, limit, request)
	if err != nil || answer == nil {
		return err
	}
	if err := decode(data, answer); err != nil {
		return perigee.Errorf(perigee.ClassUnavailable, "the language server answered %s with something else: %w", method, err)
	}
	return nil
}

// withMetadata adds the version of the IDE, which the first generation of language servers
// requires.
func (c *Client) withMetadata(request object) object {
	if c.options.Version != "" {
		request["metadata"] = object{"ideName": "antigravity", "extensionName": "antigravity", "ideVersion": c.options.Version, "locale": "en"}
	}
	return request
}

// StartOptions describe a conversation. All are optional.
type StartOptions struct {
	Cascade    string   // its ID; a new one if empty
	Workspaces []string // URIs of directories; for versions that accept them
}

// Start creates a conversation and returns its id. It can be repeated with the same id. If the
// answer is lost, Start looks for the conversation, and creates it if it is not there.
func (c *Client) Start(ctx context.Context, options StartOptions) (string, error) {
	id := cmp.Or(options.Cascade, NewID())
	request := c.withMetadata(object{
		"source":         "CORTEX_TRAJECTORY_SOURCE_CASCADE_CLIENT",
		"trajectoryType": "CORTEX_TRAJECTORY_TYPE_CASCADE",
		"cascadeId":      id,
	})
	if len(options.Workspaces) > 0 {
		request["workspaceUris"] = options.Workspaces
	}
	var answer languageserverpb.StartCascadeResponse
	err := c.do(ctx, "StartCascade", c.limits.read, request, &answer)
	if errors.Is(err, ErrUnclear) && ctx.Err() == nil {
		if _, lookup := c.Trajectory(ctx, id); lookup == nil {
			return id, nil
		}
		err = c.do(ctx, "StartCascade", c.limits.read, request, &answer)
	}
	if err != nil {
		return "", err
	}
	return cmp.Or(answer.CascadeId, id), nil
}

// A Message is a message of a user.
type Message struct {
	Text  string
	Model string // as in Model.Enum

	// ReadOnly requests an answer without changes to files.
	ReadOnly bool

	// Known is the number of steps of the conversation, as far as the caller knows. If the answer
	// to Send is lost, later steps are searched for the text.
	Known int

	// Once means that the message is never sent again, even if its fate is unknown.
	Once bool
}

// config returns the configuration of a turn. The agent never runs a command without permission.
func config(model string, readOnly bool) object {
	mode := "CONVERSATIONAL_PLANNER_MODE_DEFAULT"
	if readOnly {
		mode = "CONVERSATIONAL_PLANNER_MODE_READ_ONLY"
	}
	return object{"plannerConfig": object{
		"conversational": object{"plannerMode": mode},
		"planModel":      enum(model),
		"requestedModel": object{"model": enum(model)},
		"toolConfig": object{"runCommand": object{"autoCommandConfig": object{
			"autoExecutionPolicy": "CASCADE_COMMANDS_AUTO_EXECUTION_OFF",
		}}},
	}}
}

// enum returns the value of an enum, which can be a name or a number.
func enum(value string) any {
	if n, err := strconv.ParseInt(value, 10, 32); err == nil {
		return n
	}
	return value
}

// Send adds a message to a conversation, and the agent starts to answer it. queued means that the
// agent was busy: the message waits for SendAllQueued.
//
// A message is sent once. If the connection ends before the answer, Send looks for the message in
// the conversation. It sends it again only if another process serves the conversation by then and
// the message is not in it, unless Message.Once is set; otherwise the error wraps ErrUnclear.
func (c *Client) Send(ctx context.Context, cascade string, message Message) (queued bool, err error) {
	if message.Model == "" {
		return false, perigee.Errorf(perigee.ClassInvalid, "the message names no model").WithHint("`perigee models` lists the models")
	}
	request := c.withMetadata(object{
		"cascadeId":     cascade,
		"items":         []object{{"text": message.Text}},
		"cascadeConfig": config(message.Model, message.ReadOnly),
	})
	var used Endpoint
	answer, err := c.callAt(ctx, "SendUserCascadeMessage", c.limits.send, request, &used)
	if errors.Is(err, ErrUnclear) && ctx.Err() == nil {
		found, moved, lookup := c.findMessage(ctx, cascade, message, used)
		switch {
		case lookup != nil || !found && (!moved || message.Once):
			return false, err
		case found:
			return false, nil
		}
		answer, err = c.callAt(ctx, "SendUserCascadeMessage", c.limits.send, request, &used)
	}
	if err != nil {
		return false, err
	}
	var sent languageserverpb.SendUserCascadeMessageResponse
	if err := decode(answer, &sent); err != nil {
		return false, nil // accepted, even if the answer cannot be decoded
	}
	return sent.Queued, nil
}

// findMessage looks for a message among the later steps of a conversation. moved means that the
// conversation was read from another endpoint than used.
func (c *Client) findMessage(ctx context.Context, cascade string, message Message, used Endpoint) (found, moved bool, err error) {
	for _, pause := range c.limits.lookups {
		if !perigee.Pause(ctx, pause) {
			return false, false, context.Cause(ctx)
		}
		now := used
		steps, err := c.stepsAt(ctx, cascade, message.Known, &now)
		if err != nil {
			return false, false, err
		}
		moved = now != used
		for _, step := range steps {
			if input := step.GetUserInput(); input != nil && userText(input) == message.Text {
				return true, moved, nil
			}
		}
	}
	return false, moved, nil
}

// userText returns the text of a user's message in a step.
func userText(input *cortexpb.CortexStepUserInput) string {
	text := ""
	for _, item := range input.GetItems() {
		text += item.GetText()
	}
	return cmp.Or(text, input.GetUserResponse(), input.GetQuery())
}

// SendAllQueued makes the agent answer the messages that wait.
func (c *Client) SendAllQueued(ctx context.Context, cascade, model string, readOnly bool) error {
	request := c.withMetadata(object{"cascadeId": cascade, "cascadeConfig": config(model, readOnly)})
	return c.do(ctx, "SendAllQueuedMessages", c.limits.send, request, nil)
}

// How long a message may wait in the queue of the server until the agent is idle, and the time
// between two checks.
const (
	queueTime  = 30 * time.Second
	queuePause = 250 * time.Millisecond
)

// SendQueuedWhenIdle makes the agent answer a message that found it busy, when it is idle.
func (c *Client) SendQueuedWhenIdle(ctx context.Context, cascade, model string, readOnly bool) error {
	ctx, cancel := context.WithTimeout(ctx, queueTime)
	defer cancel()
	for {
		state, err := c.Trajectory(ctx, cascade)
		if err != nil {
			return err
		}
		if state.GetStatus() == cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE {
			return c.SendAllQueued(ctx, cascade, model, readOnly)
		}
		if !perigee.Pause(ctx, queuePause) {
			return fmt.Errorf("the agent did not become idle: %w", ctx.Err())
		}
	}
}

// Cancel stops the agent. It gives up after five seconds: a language server that is stuck does not
// answer.
func (c *Client) Cancel(ctx context.Context, cascade string) error {
	return c.do(ctx, "CancelCascadeInvocation", c.limits.control, object{"cascadeId": cascade}, nil)
}

// Trajectory returns a conversation: its status, its ids and the number of its steps. The steps may
// be incomplete.
func (c *Client) Trajectory(ctx context.Context, cascade string) (*languageserverpb.GetCascadeTrajectoryResponse, error) {
	answer := &languageserverpb.GetCascadeTrajectoryResponse{}
	return answer, c.do(ctx, "GetCascadeTrajectory", c.limits.read, object{"cascadeId": cascade}, answer)
}

// Steps returns all steps from an offset on. A long conversation is read in several calls.
func (c *Client) Steps(ctx context.Context, cascade string, offset int) ([]*geminicoder.Step, error) {
	var at Endpoint
	return c.stepsAt(ctx, cascade, offset, &at)
}

// maxPages is the maximum number of pages of one list. It is for servers that ignore the offset
// and have no last page.
const maxPages = 10_000

// stepsAt reads pages until one is empty, and stores the endpoint of the last attempt. An offset
// beyond the end may be an error: then the steps are the ones of the pages before it.
func (c *Client) stepsAt(ctx context.Context, cascade string, offset int, at *Endpoint) (steps []*geminicoder.Step, err error) {
	for page, total := 1, int64(0); ; page++ {
		data, err := c.callAt(ctx, "GetCascadeTrajectorySteps", c.limits.read,
			object{"cascadeId": cascade, "stepOffset": offset + len(steps)}, at)
		if err != nil && page > 1 && perigee.AsError(err).Class == perigee.ClassInvalid {
			return steps, nil
		}
		if err != nil {
			return steps, err
		}
		var more languageserverpb.GetCascadeTrajectoryStepsResponse
		if err := decode(data, &more); err != nil {
			return steps, perigee.Errorf(perigee.ClassUnavailable, "the steps of the conversation: %w", err)
		}
		if len(more.Steps) == 0 {
			return steps, nil
		}
		steps = append(steps, more.Steps...)
		if total += int64(len(data)); total > c.limits.answer || page > maxPages {
			return steps, perigee.Errorf(perigee.ClassUnavailable, "the conversation has no end after %d pages of %d bytes", page, total).
				WithHint("start a new conversation")
		}
	}
}

// Conversations returns a summary of each conversation, by id.
func (c *Client) Conversations(ctx context.Context) (map[string]*jetskicortexpb.CascadeTrajectorySummary, error) {
	var answer languageserverpb.GetAllCascadeTrajectoriesResponse
	if err := c.do(ctx, "GetAllCascadeTrajectories", c.limits.read, object{}, &answer); err != nil {
		return nil, err
	}
	return answer.TrajectorySummaries, nil
}

// Interact answers a step that waits for the user.
func (c *Client) Interact(ctx context.Context, cascade string, interaction *cortexpb.CascadeUserInteraction) error {
	data, err := protojson.Marshal(interaction)
	if err != nil {
		return perigee.Errorf(perigee.ClassInvalid, "the answer to a step: %w", err)
	}
	return c.do(ctx, "HandleCascadeUserInteraction", c.limits.control, object{"cascadeId": cascade, "interaction": json.RawMessage(data)}, nil)
}

// Delete removes a conversation permanently.
func (c *Client) Delete(ctx context.Context, cascade string) error {
	return c.do(ctx, "DeleteCascadeTrajectory", c.limits.control, object{"cascadeId": cascade}, nil)
}

// Load makes the language server read a conversation of an earlier process from its files. Later
// generations do that by themselves.
func (c *Client) Load(ctx context.Context, cascade string) error {
	return c.do(ctx, "LoadTrajectory", c.limits.control, object{"cascadeId": cascade}, nil)
}

// AddTrackedWorkspace adds a directory, in which the agent then works.
func (c *Client) AddTrackedWorkspace(ctx context.Context, dir string) error {
	return c.do(ctx, "AddTrackedWorkspace", c.limits.control, object{"workspace": filepath.ToSlash(dir)}, nil)
}

// Heartbeat notifies the language server that this program is running, and checks that it answers.
func (c *Client) Heartbeat(ctx context.Context) error {
	return c.do(ctx, "Heartbeat", c.limits.control, c.withMetadata(object{}), &languageserverpb.HeartbeatResponse{})
}

// UserStatus returns the account that the language server uses, with its models.
func (c *Client) UserStatus(ctx context.Context) (*codeiumcommonpb.UserStatus, error) {
	var answer languageserverpb.GetUserStatusResponse
	if err := c.do(ctx, "GetUserStatus", c.limits.read, c.withMetadata(object{}), &answer); err != nil {
		return nil, err
	}
	return answer.UserStatus, nil
}

// Ready checks once whether the language server works: it answers, and with models set it also has
// an account and a list of models.
func (c *Client) Ready(ctx context.Context, models bool) error {
	if err := c.Heartbeat(ctx); err != nil || !models {
		return err
	}
	status, err := c.UserStatus(ctx)
	if err != nil {
		return err
	}
	if len(status.GetCascadeModelConfigData().GetClientModelConfigs()) == 0 {
		return perigee.Errorf(perigee.ClassUnavailable, "the language server knows no models yet")
	}
	return nil
}

// Exit requests the language server to end.
func (c *Client) Exit(ctx context.Context) error {
	return c.do(ctx, "Exit", c.limits.control, object{}, nil)
}

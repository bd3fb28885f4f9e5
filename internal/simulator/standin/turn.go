package standin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// maxInvocations is how often the model is called in one turn.
const maxInvocations = 25

// systemPrompt replaces the real prompt of many pages.
const systemPrompt = "<identity>\nYou are Antigravity, a coding assistant. You help a USER with their workspace.\n</identity>\n" +
	"<communication_style>\nAnswer in Markdown. Say what you did.\n</communication_style>"

// acceptDelay is the time in which a conversation still looks idle after a message was sent.
const acceptDelay = 15 * time.Millisecond

// begin starts the turn of a message. The conversation is marked as busy.
func (k *cascade) begin(m message, accepted chan<- struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	k.all.mu.Lock()
	k.cancel = cancel
	k.all.mu.Unlock()
	go func() {
		defer cancel()
		if accepted == nil {
			sleep(ctx, acceptDelay)
		}
		k.setStatus(running)
		k.recordInput(m)
		if accepted != nil {
			close(accepted)
		}
		k.turn(ctx, m)
		k.save(true)
		k.finishTurn()
	}()
}

// finishTurn makes the conversation idle, or continues with a message that waited.
func (k *cascade) finishTurn() {
	k.all.mu.Lock()
	var next *message
	if len(k.queue) > 0 && k.all.p.generation != classic {
		next = &k.queue[0]
		k.queue = k.queue[1:]
	} else {
		k.busy = false
	}
	k.cancel = nil
	k.all.mu.Unlock()
	k.setStatus(idle)
	if next != nil {
		k.begin(*next, nil)
	}
}

// recordInput records the message of the user, and that earlier conversations were looked at.
func (k *cascade) recordInput(m message) {
	k.all.mu.Lock()
	settings := ""
	if len(k.contents) == 0 {
		settings = "The user selected the model " + enumName(m.model) + "."
	}
	k.all.mu.Unlock()
	defer func() {
		k.all.mu.Lock()
		k.contents = append(k.contents, userContent(m.text, settings, m.media...))
		k.all.mu.Unlock()
	}()
	if m.step >= 0 {
		k.changeStep(m.step, func(step *geminicoder.Step) {
			step.Status = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE
			step.GetUserInput().IsQueuedMessage = false
		})
		return
	}
	k.addStep(inputStep(m, false))
	k.addStep(&geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_CONVERSATION_HISTORY, Status: cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE,
		Metadata: &cortexpb.CortexStepMetadata{Source: cortexpb.CortexStepSource_CORTEX_STEP_SOURCE_SYSTEM}})
	k.save(false)
}

func inputStep(m message, queued bool) *geminicoder.Step {
	status := cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE
	if queued {
		status = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_QUEUED
	}
	return &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_USER_INPUT, Status: status,
		Metadata: &cortexpb.CortexStepMetadata{Source: cortexpb.CortexStepSource_CORTEX_STEP_SOURCE_USER_EXPLICIT},
		Step:     &geminicoder.Step_UserInput{UserInput: &cortexpb.CortexStepUserInput{UserResponse: m.text, Items: m.items, UserConfig: m.config, IsQueuedMessage: queued}}}
}

// turn calls the model until it calls no more tools.
func (k *cascade) turn(ctx context.Context, m message) {
	p := k.all.p
	if m.model == 0 {
		p.log.warn("cascade %s: neither PlanModel nor RequestedModel is set, nothing is generated", k.id)
		return
	}
	executor := &cortexpb.ExecutorMetadata{ExecutionId: newUUID(), TerminationReason: cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_MAX_INVOCATIONS}
	model, ok := p.cloud.byEnum(m.model)
	var err error
	for executor.NumGeneratorInvocations < maxInvocations {
		var calls []toolCall
		if !ok {
			err = fmt.Errorf("model not found: %s", enumName(m.model))
		} else {
			executor.NumGeneratorInvocations++
			calls, err = k.generate(ctx, m, model, executor.ExecutionId)
		}
		if err == nil && len(calls) > 0 {
			k.execute(ctx, m, calls, executor.ExecutionId)
			err = ctx.Err()
		}
		if err != nil || len(calls) == 0 {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		executor.TerminationReason = cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_USER_CANCELED
	case err != nil:
		executor.TerminationReason = cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_ERROR
		k.recordError(err)
	case executor.NumGeneratorInvocations < maxInvocations:
		executor.TerminationReason = cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_NO_TOOL_CALL
		k.checkpoint(ctx, m, model)
	}
	k.all.mu.Lock()
	executor.LastStepIdx = int32(len(k.steps) - 1)
	k.executors = append(k.executors, executor)
	update := k.update()
	update.ExecutorMetadata = executor
	k.publish(update)
	k.all.mu.Unlock()
}

// request returns the body of a call for this conversation.
func (k *cascade) request(m message, model cloudModel, execution string) envelope {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	k.sequence++
	claude := strings.HasPrefix(model.ID, "claude")
	id := fmt.Sprintf("agent/%s/%d/%s/%d", k.id, time.Now().UnixMilli(), k.trajectory, k.sequence)
	return envelope{RequestID: id, Model: model.ID, RequestType: "agent", Request: generation{
		Contents:          append([]content(nil), k.contents...),
		SystemInstruction: &content{Role: "user", Parts: []part{{Text: new(systemPrompt)}}},
		Tools:             nativeTools(m.readOnly),
		ToolConfig:        newToolConfig("VALIDATED"),
		Config:            model.configure(),
		Labels: map[string]string{"last_step_index": strconv.Itoa(len(k.steps) - 1), "trajectory_id": k.trajectory, "request_id": id, "model_enum": enumName(model.Enum),
			"used_claude": strconv.FormatBool(claude), "used_claude_conservative": strconv.FormatBool(claude),
			"used_non_gemini_model": strconv.FormatBool(!strings.HasPrefix(model.ID, "gemini")), "last_execution_id": execution},
	}}
}

// A toolCall is a call of the model.
type toolCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// generate calls the model once. Its answer grows in one step, in place.
func (k *cascade) generate(ctx context.Context, m message, model cloudModel, execution string) ([]toolCall, error) {
	p := k.all.p
	index, asked := -1, time.Now()
	a, err := p.cloud.stream(ctx, k.request(m, model, execution), func(a *answer) {
		if index < 0 {
			index = k.addStep(&geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_PLANNER_RESPONSE, Status: cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_GENERATING,
				Metadata: &cortexpb.CortexStepMetadata{Source: cortexpb.CortexStepSource_CORTEX_STEP_SOURCE_MODEL, ExecutionId: execution, GeneratorModel: codeiumcommonpb.Model(m.model),
					RequestedModel: &codeiumcommonpb.ModelOrAlias{Choice: &codeiumcommonpb.ModelOrAlias_Model{Model: codeiumcommonpb.Model(m.model)}}},
				Step: &geminicoder.Step_PlannerResponse{PlannerResponse: &cortexpb.CortexStepPlannerResponse{MessageId: "bot-" + newUUID()}}})
		}
		k.changeStep(index, func(step *geminicoder.Step) { fillPlanner(step.GetPlannerResponse(), a) })
		if p.faults.due("crash-mid-stream") {
			p.crash("crash-mid-stream")
		}
	})
	if a == nil || index < 0 {
		return nil, err
	}
	calls := a.calls()
	status, stop := cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE, stopReason(a.finish, len(calls) > 0)
	switch {
	case ctx.Err() != nil:
		status, stop = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_CANCELED, codeiumcommonpb.StopReason_STOP_REASON_CLIENT_CANCELED
	case err != nil:
		status, stop = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_ERROR, codeiumcommonpb.StopReason_STOP_REASON_CLIENT_STREAM_ERROR
	}
	stats := a.usage.stats(m.model, a.responseID)
	k.changeStep(index, func(step *geminicoder.Step) {
		step.Status = status
		step.GetPlannerResponse().StopReason = stop
		step.Metadata.FinishedGeneratingAt = timestamppb.Now()
		step.Metadata.ModelUsage = stats
	})
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	if len(a.parts) > 0 && err == nil {
		k.contents = append(k.contents, content{Role: "model", Parts: a.parts})
	}
	metadata := &cortexpb.CortexStepGeneratorMetadata{StepIndices: []uint32{uint32(index)}, ExecutionId: execution, PlannerConfig: m.config.GetPlannerConfig(),
		Metadata: &cortexpb.CortexStepGeneratorMetadata_ChatModel{ChatModel: &cortexpb.ChatModelMetadata{SystemPrompt: systemPrompt, Model: codeiumcommonpb.Model(m.model), Usage: stats,
			ResponseModel: a.modelVersion, TimeToFirstToken: durationpb.New(a.firstChunk.Sub(asked)), StreamingDuration: durationpb.New(time.Since(a.firstChunk))}}}
	if err != nil {
		metadata.Error = err.Error()
		return nil, err
	}
	k.generators = append(k.generators, metadata)
	return calls, nil
}

func (a *answer) calls() []toolCall {
	var calls []toolCall
	for _, p := range a.parts {
		var call toolCall
		if p.Call != nil && json.Unmarshal(p.Call, &call) == nil {
			calls = append(calls, call)
		}
	}
	return calls
}

func fillPlanner(planner *cortexpb.CortexStepPlannerResponse, a *answer) {
	planner.Response, planner.Thinking = a.text(false), a.text(true)
	planner.ModifiedResponse = planner.Response
	planner.ThinkingSignature = []byte(a.signature())
	planner.ToolCalls = nil
	for _, call := range a.calls() {
		planner.ToolCalls = append(planner.ToolCalls, call.message())
	}
}

func (c toolCall) message() *codeiumcommonpb.ChatToolCall {
	return &codeiumcommonpb.ChatToolCall{Id: c.ID, Name: c.Name, ArgumentsJson: string(cmp.Or(string(c.Args), "{}"))}
}

func (u usage) stats(model int32, response string) *codeiumcommonpb.ModelUsageStats {
	return &codeiumcommonpb.ModelUsageStats{Model: codeiumcommonpb.Model(model), InputTokens: u.Prompt - min(u.Cached, u.Prompt), CacheReadTokens: u.Cached,
		OutputTokens: u.Candidates + u.Thoughts, ThinkingOutputTokens: u.Thoughts, ResponseOutputTokens: u.Candidates,
		ApiProvider: codeiumcommonpb.APIProvider_API_PROVIDER_GOOGLE_EVERGREEN, ResponseId: response}
}

func stopReason(finish string, calls bool) codeiumcommonpb.StopReason {
	switch finish {
	case "STOP":
		if calls {
			return codeiumcommonpb.StopReason_STOP_REASON_FUNCTION_CALL
		}
		return codeiumcommonpb.StopReason_STOP_REASON_STOP_PATTERN
	case "MAX_TOKENS":
		return codeiumcommonpb.StopReason_STOP_REASON_MAX_TOKENS
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL":
		return codeiumcommonpb.StopReason_STOP_REASON_CLIENT_TOOL_PARSE_ERROR
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY":
		return codeiumcommonpb.StopReason_STOP_REASON_CONTENT_FILTER
	}
	return codeiumcommonpb.StopReason_STOP_REASON_OTHER
}

// recordError records a failure with the words of the cloud.
func (k *cascade) recordError(err error) {
	k.all.p.log.error("cascade %s: %v", k.id, err)
	details := &cortexpb.CortexErrorDetails{UserErrorMessage: "Agent execution terminated due to error.", ShortError: err.Error(), FullError: err.Error(), ErrorId: newUUID()}
	var refused *cloudError
	if errors.As(err, &refused) {
		details.UserErrorMessage, details.ErrorCode = refused.message, uint32(refused.status)
		details.Details, details.RpcErrorDetails = refused.body, refused.details
	}
	k.addStep(&geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_ERROR_MESSAGE, Status: cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE,
		Metadata: &cortexpb.CortexStepMetadata{Source: cortexpb.CortexStepSource_CORTEX_STEP_SOURCE_SYSTEM},
		Step:     &geminicoder.Step_ErrorMessage{ErrorMessage: &cortexpb.CortexStepErrorMessage{Error: details, ShouldShowUser: true}}})
}

// backgroundTimeout bounds the calls that no message asked for.
const backgroundTimeout = 30 * time.Second

// checkpoint makes the calls after an answer: one of the editor, and one for the title and the
// summary of the conversation.
func (k *cascade) checkpoint(ctx context.Context, m message, model cloudModel) {
	ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
	defer cancel()
	small := k.all.p.cloud.small(model)
	ask := func(kind, text string, tools *toolConfig) (string, error) {
		body := envelope{RequestID: kind + "/" + newUUID(), Model: small.ID, RequestType: kind, Request: generation{
			Contents: []content{{Role: "user", Parts: []part{{Text: &text}}}}, ToolConfig: tools, Config: small.configure()}}
		if tools != nil {
			body.Request.Tools = nativeTools(true)
		}
		a, err := k.all.p.cloud.stream(ctx, body, func(*answer) {})
		if err != nil {
			k.all.p.log.warn("the call of type %s failed: %v", kind, err)
			return "", err
		}
		return strings.TrimSpace(a.text(false)), nil
	}
	if _, err := ask("tab", "<current_file>\npackage main\n</current_file>\nComplete the line at the cursor.", nil); ctx.Err() != nil {
		k.all.p.log.warn("the turn was canceled: %v", err)
		return
	}
	quoted := strings.NewReplacer("[[", "[ [", "]]", "] ]").Replace(m.text) // a text, not directives for a simulated model
	text, err := ask("checkpoint", "Summarize the conversation and give it a title. The user said:\n"+quoted, newToolConfig("NONE"))
	if ctx.Err() != nil {
		return
	}
	title := string([]rune(cmp.Or(firstLine(text), firstLine(m.text)))[:min(60, len([]rune(cmp.Or(firstLine(text), firstLine(m.text)))))])
	k.all.mu.Lock()
	if k.title == "" {
		k.title = title
	}
	last := len(k.steps)
	k.all.mu.Unlock()
	k.addStep(&geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_CHECKPOINT, Status: cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE,
		Metadata: &cortexpb.CortexStepMetadata{Source: cortexpb.CortexStepSource_CORTEX_STEP_SOURCE_SYSTEM},
		Step: &geminicoder.Step_Checkpoint{Checkpoint: &cortexpb.CortexStepCheckpoint{ConversationTitle: title, SessionSummary: text, UserRequests: []string{m.text},
			IncludedStepIndexEnd: uint32(last), ModelSummarizationFailed: err != nil, UsedFallbackSummary: err != nil}}})
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// finishCalls answers calls in the form of the real client: under the role of the model.
func (k *cascade) finishCalls(calls []toolCall, outputs []string) {
	results := content{Role: "model"}
	for i, call := range calls {
		response := struct {
			ID       string            `json:"id,omitempty"`
			Name     string            `json:"name"`
			Response map[string]string `json:"response"`
		}{call.ID, call.Name, map[string]string{"output": outputs[i]}}
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(response) // strings only
		results.Parts = append(results.Parts, part{Response: bytes.TrimSpace(text.Bytes())})
	}
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	k.contents = append(k.contents, results)
}

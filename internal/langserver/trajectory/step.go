package trajectory

import (
	"cmp"
	"strings"

	"google.golang.org/protobuf/proto"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// terminal reports whether a step with this status has ended.
func terminal(s cortexpb.CortexStepStatus) bool {
	switch s {
	case cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE, cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_INVALID,
		cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_CLEARED, cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_CANCELED,
		cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_ERROR, cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_INTERRUPTED:
		return true
	}
	return false
}

// typeOf returns the type of a step. A step without one has the type of its payload.
func typeOf(s *geminicoder.Step) cortexpb.CortexStepType {
	if t := s.GetType(); t != 0 {
		return t
	}
	switch s.GetStep().(type) {
	case *geminicoder.Step_UserInput:
		return cortexpb.CortexStepType_CORTEX_STEP_TYPE_USER_INPUT
	case *geminicoder.Step_PlannerResponse:
		return cortexpb.CortexStepType_CORTEX_STEP_TYPE_PLANNER_RESPONSE
	case *geminicoder.Step_ErrorMessage:
		return cortexpb.CortexStepType_CORTEX_STEP_TYPE_ERROR_MESSAGE
	case *geminicoder.Step_RunCommand:
		return cortexpb.CortexStepType_CORTEX_STEP_TYPE_RUN_COMMAND
	case *geminicoder.Step_NotifyUser:
		return cortexpb.CortexStepType_CORTEX_STEP_TYPE_NOTIFY_USER
	case *geminicoder.Step_AskQuestion:
		return cortexpb.CortexStepType_CORTEX_STEP_TYPE_ASK_QUESTION
	}
	return 0
}

// internalStep reports whether steps of a type are internal to the server and not reported.
func internalStep(t cortexpb.CortexStepType) bool {
	switch t {
	case cortexpb.CortexStepType_CORTEX_STEP_TYPE_UNSPECIFIED, cortexpb.CortexStepType_CORTEX_STEP_TYPE_CHECKPOINT,
		cortexpb.CortexStepType_CORTEX_STEP_TYPE_EPHEMERAL_MESSAGE, cortexpb.CortexStepType_CORTEX_STEP_TYPE_CONVERSATION_HISTORY,
		cortexpb.CortexStepType_CORTEX_STEP_TYPE_KNOWLEDGE_ARTIFACTS, cortexpb.CortexStepType_CORTEX_STEP_TYPE_SYSTEM_MESSAGE:
		return true
	}
	return false
}

// textOf returns the text of a step that is a part of the answer.
func textOf(s *geminicoder.Step) string {
	if n := s.GetNotifyUser(); n != nil {
		return n.GetNotificationContent()
	}
	p := s.GetPlannerResponse()
	return cmp.Or(p.GetResponse(), p.GetModifiedResponse())
}

// UserText returns the text of a message of the user.
func UserText(in *cortexpb.CortexStepUserInput) string {
	var texts []string
	for _, item := range in.GetItems() {
		if text := item.GetText(); text != "" {
			texts = append(texts, text)
		}
	}
	return cmp.Or(strings.Join(texts, "\n"), in.GetUserResponse(), in.GetQuery())
}

func hashCall(c *codeiumcommonpb.ChatToolCall) uint64 {
	return hashOf(c.GetId() + "\x00" + c.GetName() + "\x00" + c.GetArgumentsJson())
}

func usageOf(s *geminicoder.Step) Usage {
	u := s.GetMetadata().GetModelUsage()
	return Usage{Input: u.GetInputTokens(), Output: u.GetOutputTokens(), Thinking: u.GetThinkingOutputTokens(),
		CacheRead: u.GetCacheReadTokens(), CacheWrite: u.GetCacheWriteTokens()}
}

// hashStep identifies a step with all its content. A step that cannot be encoded, because a text
// is not UTF-8, has the hash 0 and is compared each time.
func hashStep(s *geminicoder.Step) uint64 {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(s)
	if err != nil {
		return 0
	}
	return hashOf(data)
}

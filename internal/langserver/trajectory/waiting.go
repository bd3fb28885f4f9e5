package trajectory

import (
	"cmp"
	"strconv"
	"strings"

	cortexpb "perigee/gen/exa/cortex_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// maxNesting is how deep subagents are looked at.
const maxNesting = 8

// waitingIn lists the inputs that a step, and the steps of its subagents, wait for. trajectory and
// index name the step if its metadata does not.
func waitingIn(s *geminicoder.Step, trajectory string, index, depth int) []*Waiting {
	var list []*Waiting
	if s.GetStatus() == cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_WAITING {
		// A step of the planner that waits represents the steps after it, which execute its calls.
		if s.GetPlannerResponse() == nil {
			list = append(list, waitingOf(s, trajectory, index))
		}
	}
	if sub := s.GetSubtrajectory(); sub != nil && depth < maxNesting {
		for i, step := range sub.GetSteps() {
			list = append(list, waitingIn(step, sub.GetTrajectoryId(), i, depth+1)...)
		}
	}
	return list
}

func waitingOf(s *geminicoder.Step, trajectory string, index int) *Waiting {
	w := &Waiting{Trajectory: trajectory, Index: index}
	if source := s.GetMetadata().GetSourceTrajectoryStepInfo(); source.GetTrajectoryId() != "" {
		w.Trajectory, w.Index = source.GetTrajectoryId(), int(source.GetStepIndex())
	}
	w.Member, w.Subject, w.question = memberOf(s), subjectOf(s), s.GetAskQuestion()
	return w
}

// memberOf returns the member of CascadeUserInteraction that answers a step: the one that the step
// requests, or the one of its payload.
func memberOf(s *geminicoder.Step) string {
	if r := s.GetRequestedInteraction().ProtoReflect(); r.IsValid() {
		if field := r.WhichOneof(r.Descriptor().Oneofs().ByName("interaction")); field != nil {
			return field.JSONName()
		}
	}
	switch {
	case permissionOf(s) != nil:
		return "filePermission"
	case s.GetRunCommand() != nil:
		return "runCommand"
	case s.GetMcpTool() != nil:
		return "mcp"
	case s.GetReadUrlContent() != nil:
		return "readUrlContent"
	case s.GetSendCommandInput() != nil:
		return "sendCommandInput"
	case s.GetAskQuestion() != nil, typeOf(s) == cortexpb.CortexStepType_CORTEX_STEP_TYPE_ASK_QUESTION:
		return "askQuestion"
	}
	return "permission"
}

// permissionOf returns the request of a step for a file.
func permissionOf(s *geminicoder.Step) *cortexpb.FilePermissionInteractionSpec {
	return cmp.Or(s.GetRequestedInteraction().GetFilePermission(), s.GetCodeAction().GetFilePermissionRequest(),
		s.GetViewFile().GetFilePermissionRequest(), s.GetListDirectory().GetFilePermissionRequest(),
		s.GetGrepSearch().GetFilePermissionRequest())
}

// subjectOf describes the subject of the person's decision.
func subjectOf(s *geminicoder.Step) string {
	if p := permissionOf(s); p != nil {
		return p.GetAbsolutePathUri()
	}
	if e := s.GetRequestedInteraction().GetElicitation(); e != nil {
		return cmp.Or(e.GetMessage(), e.GetUrl(), e.GetServerName())
	}
	if c := s.GetRunCommand(); c != nil {
		line := strings.TrimSpace(c.GetCommand() + " " + strings.Join(c.GetArgs(), " "))
		return cmp.Or(c.GetProposedCommandLine(), c.GetCommandLine(), line)
	}
	if m := s.GetMcpTool(); m != nil {
		return strings.Trim(m.GetServerName()+"/"+m.GetToolCall().GetName(), "/")
	}
	if q := s.GetAskQuestion(); q != nil {
		return questions(q)
	}
	return cmp.Or(s.GetReadUrlContent().GetUrl(), s.GetSendCommandInput().GetInput(), s.GetNotifyUser().GetNotificationContent(),
		s.GetMetadata().GetToolCall().GetName())
}

// questions returns the questions of a step and the answers that it offers, one question per line.
func questions(q *cortexpb.CortexStepAskQuestion) string {
	var lines []string
	for _, entry := range q.GetQuestions() {
		line := entry.GetQuestion()
		var options []string
		for _, o := range entry.GetOptions() {
			options = append(options, o.GetText())
		}
		if len(options) > 0 {
			line += " (" + strings.Join(options, ", ") + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (w *Waiting) hash() uint64 {
	return hashOf(strings.Join([]string{w.Member, w.Trajectory, strconv.Itoa(w.Index), w.Subject}, "\x00"))
}

package trajectory

import (
	"encoding/json"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"perigee"
	cortexpb "perigee/gen/exa/cortex_pb"
)

// decisions maps the members of an interaction to descriptions of the requested decision.
var decisions = map[string]string{
	"runCommand":       "permission to run the command",
	"filePermission":   "permission to use the file",
	"mcp":              "permission to use the tool",
	"readUrlContent":   "permission to read the page",
	"openBrowserUrl":   "permission to open the page",
	"sendCommandInput": "permission to write to a running command:",
	"permission":       "permission:",
	"askQuestion":      "an answer to the question:",
	"elicitation":      "an answer to the question:",
}

// String describes the decision that a person has to make, in one line. Without a Member it is the
// Subject.
func (w *Waiting) String() string {
	text, ok := decisions[w.Member]
	if !ok && w.Member != "" {
		text = "permission (" + w.Member + ")"
	}
	return strings.Join(strings.Fields(text+" "+w.Subject), " ")
}

// IsQuestion reports whether the step needs a text as its answer, and not a permission.
func (w *Waiting) IsQuestion() bool { return w.Member == "askQuestion" || w.Member == "elicitation" }

// Decide returns the message that answers the step. A permission applies once. text answers a
// question, or several, one per line: the text or the number of an option chooses that option, and
// any other text is a free answer.
func (w *Waiting) Decide(allow bool, text string) (*cortexpb.CascadeUserInteraction, error) {
	i := &cortexpb.CascadeUserInteraction{TrajectoryId: w.Trajectory, StepIndex: uint32(w.Index)}
	once := cortexpb.PermissionScope_PERMISSION_SCOPE_ONCE
	switch w.Member {
	case "runCommand":
		i.Interaction = &cortexpb.CascadeUserInteraction_RunCommand{RunCommand: &cortexpb.CascadeRunCommandInteraction{
			Confirm: allow, ProposedCommandLine: w.Subject, SubmittedCommandLine: w.Subject}}
	case "filePermission":
		i.Interaction = &cortexpb.CascadeUserInteraction_FilePermission{FilePermission: &cortexpb.FilePermissionInteraction{
			Allow: allow, Scope: once, AbsolutePathUri: w.Subject}}
	case "mcp":
		i.Interaction = &cortexpb.CascadeUserInteraction_Mcp{Mcp: &cortexpb.CascadeMcpInteraction{Confirm: allow}}
	case "readUrlContent":
		i.Interaction = &cortexpb.CascadeUserInteraction_ReadUrlContent{ReadUrlContent: &cortexpb.CascadeReadUrlContentInteraction{Confirm: allow}}
	case "openBrowserUrl":
		i.Interaction = &cortexpb.CascadeUserInteraction_OpenBrowserUrl{OpenBrowserUrl: &cortexpb.CascadeOpenBrowserUrlInteraction{Confirm: allow}}
	case "sendCommandInput":
		i.Interaction = &cortexpb.CascadeUserInteraction_SendCommandInput{SendCommandInput: &cortexpb.CascadeSendCommandInputInteraction{Confirm: allow}}
	case "permission":
		i.Interaction = &cortexpb.CascadeUserInteraction_Permission{Permission: &cortexpb.PermissionInteraction{Allow: allow, Scope: once}}
	case "askQuestion":
		answer, err := w.answer(allow, text)
		if err != nil {
			return nil, err
		}
		i.Interaction = &cortexpb.CascadeUserInteraction_AskQuestion{AskQuestion: answer}
	case "elicitation":
		answer := &cortexpb.ElicitationInteraction{Action: "decline"}
		if allow {
			answer.Action = "accept"
			if text != "" && !json.Valid([]byte(text)) {
				return nil, perigee.Errorf(perigee.ClassInvalid, "the tool asks for JSON").WithHint("give an object with the members that it asks for")
			}
			answer.ContentJson = text
		}
		i.Interaction = &cortexpb.CascadeUserInteraction_Elicitation{Elicitation: answer}
	default:
		return nil, perigee.Errorf(perigee.ClassUnimplemented, "perigee cannot answer a step that asks for %s", w.Member).
			WithHint("decide in Antigravity")
	}
	return i, nil
}

// answer repeats the questions of a step with their answers. With several questions, each line
// answers one; questions without a line are skipped.
func (w *Waiting) answer(allow bool, text string) (*cortexpb.AskQuestionInteraction, error) {
	if !allow {
		return &cortexpb.AskQuestionInteraction{Cancelled: true}, nil
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, perigee.Errorf(perigee.ClassInvalid, "the agent asks a question: %s", perigee.Clip(w.Subject, 500)).
			WithHint("answer it with a text, or deny it")
	}
	lines := []string{text}
	if len(w.question.GetQuestions()) > 1 {
		lines = strings.Split(text, "\n")
	}
	answer := &cortexpb.AskQuestionInteraction{}
	for i, question := range w.question.GetQuestions() {
		entry, line := proto.CloneOf(question), ""
		if i < len(lines) {
			line = strings.TrimSpace(lines[i])
		}
		if id, ok := optionOf(entry, line); ok {
			entry.SelectedOptionIds = []string{id}
		} else if entry.WriteInResponse = line; line == "" {
			entry.Skipped = true
		}
		answer.Responses = append(answer.Responses, entry)
	}
	return answer, nil
}

// optionOf returns the option that a text names by its text, its ID, or its number.
func optionOf(q *cortexpb.AskQuestionEntry, text string) (id string, ok bool) {
	for at, option := range q.GetOptions() {
		number := strconv.Itoa(at + 1)
		if text != "" && (strings.EqualFold(option.GetText(), text) || option.GetId() == text || number == text) {
			if option.GetId() == "" {
				return number, true
			}
			return option.GetId(), true
		}
	}
	return "", false
}

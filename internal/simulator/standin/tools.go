package standin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	extensionserverpb "perigee/gen/exa/extension_server_pb"
	"perigee/gen/exa/extension_server_pb/extensionserverpbconnect"
	geminicoder "perigee/gen/gemini_coder"
)

type function struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Parameters  schema `json:"parameters"`
}

type schema struct {
	Type        string            `json:"type"`
	Description string            `json:"description,omitempty"`
	Properties  map[string]schema `json:"properties,omitempty"`
	Required    []string          `json:"required,omitempty"`
}

// A nativeTool is a function that the language server itself offers to the model.
type nativeTool struct {
	name, help string
	readOnly   bool
	parameters [][2]string // name and description; all are strings
	run        func(x execution) (string, error)
}

// execution is a call of a native tool that has its step.
type execution struct {
	ctx     context.Context
	k       *cascade
	index   int
	args    map[string]any
	callArg func(name string) string
	eager   bool // commands run without a question
}

// natives is filled in init: the tools refer to functions that refer to the list.
var natives []nativeTool

func init() {
	natives = []nativeTool{
		{"view_file", "View the contents of a file.", true, [][2]string{{"AbsolutePath", "path of the file"}}, viewFile},
		{"list_dir", "List the contents of a directory.", true, [][2]string{{"DirectoryPath", "path of the directory"}}, listDir},
		{"run_command", "Propose a command to run on behalf of the user.", false, [][2]string{{"CommandLine", "the command"}, {"Cwd", "working directory"}}, runCommand},
		{"write_to_file", "Create a file or replace its contents.", false, [][2]string{{"TargetFile", "path of the file"}, {"CodeContent", "the contents"}}, writeFile},
		{"read_url_content", "Fetch the content of a URL.", false, [][2]string{{"Url", "the URL"}}, readURL},
		{"ask_question", "Ask the user a question with two answers.", true, [][2]string{{"Question", "the question"}, {"First", "an answer"}, {"Second", "another answer"}}, askQuestion},
		{"search_web", "Search the web.", false, [][2]string{{"query", "what to search for"}}, searchWeb},
	}
}

// nativeTools declares the tools, each in an element of its own.
func nativeTools(readOnly bool) []tool {
	var tools []tool
	for _, n := range natives {
		if readOnly && !n.readOnly {
			continue
		}
		parameters := schema{Type: "object", Properties: map[string]schema{
			"toolAction":  {Type: "string", Description: "what this call does, in a few words"},
			"toolSummary": {Type: "string", Description: "a noun phrase for this call"}}}
		for _, p := range n.parameters {
			parameters.Properties[p[0]] = schema{Type: "string", Description: p[1]}
			parameters.Required = append(parameters.Required, p[0])
		}
		parameters.Required = append(parameters.Required, "toolAction", "toolSummary")
		tools = append(tools, tool{[]function{{n.name, n.help, parameters}}})
	}
	return tools
}

// execute runs the calls of an answer one after the other. Each becomes a step, and each gets a
// result, also after a failure.
func (k *cascade) execute(ctx context.Context, m message, calls []toolCall, executionID string) {
	outputs := make([]string, len(calls))
	for i, call := range calls {
		output, err := k.executeOne(ctx, m, call, executionID)
		if err != nil {
			output = "Error: " + err.Error()
		}
		outputs[i] = output
	}
	k.finishCalls(calls, outputs)
}

func (k *cascade) executeOne(ctx context.Context, m message, call toolCall, executionID string) (string, error) {
	if ctx.Err() != nil {
		return "", errors.New("the turn was canceled")
	}
	step := &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_GENERIC, Status: cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_RUNNING,
		Metadata: &cortexpb.CortexStepMetadata{Source: cortexpb.CortexStepSource_CORTEX_STEP_SOURCE_MODEL, ToolCall: call.message(), ExecutionId: executionID}}
	x := execution{ctx: ctx, k: k, args: map[string]any{}, eager: m.eager()}
	run := func(execution) (string, error) { return "", fmt.Errorf("unknown tool %s", call.Name) }
	for _, n := range natives {
		if n.name == call.Name {
			run = n.run
		}
	}
	_ = json.Unmarshal(call.Args, &x.args) // a call without arguments fails in its tool
	x.callArg = func(name string) string {
		text, _ := x.args[name].(string)
		return text
	}
	x.index = k.addStep(step)
	output, err := run(x)
	x.change(func(step *geminicoder.Step) {
		switch {
		case terminal(step.Status):
		case ctx.Err() != nil:
			step.Status = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_CANCELED
		case err != nil:
			step.Status = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_ERROR
			step.Error = &cortexpb.CortexErrorDetails{UserErrorMessage: err.Error(), ShortError: err.Error(), FullError: err.Error()}
		default:
			step.Status = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE
		}
	})
	return output, err
}

// request names the member that the step waits for, which the first generation does not.
func (x execution) request(interaction *cortexpb.RequestedInteraction) {
	if x.k.all.p.generation != classic {
		x.change(func(step *geminicoder.Step) { step.RequestedInteraction = interaction })
	}
}

func (x execution) change(change func(*geminicoder.Step)) { x.k.changeStep(x.index, change) }

// wait lets the step wait for a decision of the user.
func (x execution) wait(member string) (*cortexpb.CascadeUserInteraction, error) {
	w := waitingStep{member, make(chan *cortexpb.CascadeUserInteraction, 1)}
	x.k.all.mu.Lock()
	x.k.waiting[x.index] = w
	x.k.all.mu.Unlock()
	x.change(func(step *geminicoder.Step) { step.Status = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_WAITING })
	x.k.all.mu.Lock()
	x.k.summaryChanged()
	x.k.all.mu.Unlock()
	defer func() {
		x.k.all.mu.Lock()
		delete(x.k.waiting, x.index)
		x.k.summaryChanged()
		x.k.all.mu.Unlock()
	}()
	select {
	case answer := <-w.answer:
		x.change(func(step *geminicoder.Step) { step.Status = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_RUNNING })
		return answer, nil
	case <-x.ctx.Done():
		return nil, errors.New("the turn was canceled")
	}
}

// memberOf returns the name of the member that an interaction has.
func memberOf(interaction *cortexpb.CascadeUserInteraction) string {
	m := interaction.ProtoReflect()
	oneof := m.Descriptor().Oneofs().ByName("interaction")
	if field := m.WhichOneof(oneof); field != nil {
		return string(field.Name())
	}
	return ""
}

// inside resolves a path and refuses paths outside the workspaces.
func (x execution) inside(path string) (string, error) {
	x.k.all.mu.Lock()
	roots := append([]string(nil), x.k.workspaces...)
	x.k.all.mu.Unlock()
	for _, uri := range roots {
		root, err := filePath(uri)
		if err != nil {
			continue
		}
		full := path
		if !filepath.IsAbs(full) {
			full = filepath.Join(root, path)
		}
		if relative, err := filepath.Rel(root, full); err == nil && filepath.IsLocal(relative) {
			return full, nil
		}
	}
	return "", fmt.Errorf("access to %s is not allowed: it is outside the workspace", path)
}

func filePath(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Path == "" {
		return "", fmt.Errorf("%q is not a file URI", uri)
	}
	return filepath.FromSlash(u.Path), nil
}

func fileURI(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

// setStep gives the step its type and member.
func (x execution) setStep(kind cortexpb.CortexStepType, set func(*geminicoder.Step)) {
	x.change(func(step *geminicoder.Step) {
		step.Type = kind
		set(step)
	})
}

const maxFile = 256 << 10

func viewFile(x execution) (string, error) {
	view := &cortexpb.CortexStepViewFile{AbsolutePathUri: fileURI(x.callArg("AbsolutePath"))}
	x.setStep(cortexpb.CortexStepType_CORTEX_STEP_TYPE_VIEW_FILE, func(step *geminicoder.Step) { step.Step = &geminicoder.Step_ViewFile{ViewFile: view} })
	path, err := x.inside(x.callArg("AbsolutePath"))
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	text = text[:min(len(text), maxFile)]
	output := strings.ToValidUTF8(string(text), "�")
	x.change(func(*geminicoder.Step) {
		view.Content, view.NumBytes, view.NumLines = output, uint32(len(text)), uint32(strings.Count(output, "\n"))
	})
	return output, nil
}

func listDir(x execution) (string, error) {
	list := &cortexpb.CortexStepListDirectory{DirectoryPathUri: fileURI(x.callArg("DirectoryPath"))}
	x.setStep(cortexpb.CortexStepType_CORTEX_STEP_TYPE_LIST_DIRECTORY, func(step *geminicoder.Step) { step.Step = &geminicoder.Step_ListDirectory{ListDirectory: list} })
	path, err := x.inside(x.callArg("DirectoryPath"))
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", err
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	x.change(func(*geminicoder.Step) { list.Children = names })
	return strings.Join(names, "\n"), nil
}

// notRun is the output of commands without an Extension Server that runs them.
const notRun = "(the stand-in language server runs no commands itself)"

// runCommand waits for the user. A command that is allowed goes to the terminal of the IDE, if it
// has one.
func runCommand(x execution) (string, error) {
	line := x.callArg("CommandLine")
	run := &cortexpb.CortexStepRunCommand{CommandLine: line, ProposedCommandLine: line, Cwd: x.callArg("Cwd"), Blocking: true, CommandId: newUUID()}
	x.setStep(cortexpb.CortexStepType_CORTEX_STEP_TYPE_RUN_COMMAND, func(step *geminicoder.Step) { step.Step = &geminicoder.Step_RunCommand{RunCommand: run} })
	if x.eager {
		x.change(func(*geminicoder.Step) { run.ShouldAutoRun = true })
	} else {
		x.request(&cortexpb.RequestedInteraction{Interaction: &cortexpb.RequestedInteraction_RunCommand{RunCommand: &cortexpb.UnusedInteractionSpec{}}})
		decision, err := x.wait("run_command")
		if err != nil {
			return "", err
		}
		if !decision.GetRunCommand().GetConfirm() {
			x.change(func(step *geminicoder.Step) {
				run.UserRejected = true
				step.Status = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_CANCELED
			})
			return "The user rejected the command.", nil
		}
		line = cmp.Or(decision.GetRunCommand().GetSubmittedCommandLine(), line)
	}
	output, code, used := notRun, int32(0), false
	if e := x.k.all.p.extension; e != nil {
		support, err := call[*extensionserverpb.CheckTerminalShellSupportResponse](x.ctx, e,
			extensionserverpbconnect.ExtensionServerServiceCheckTerminalShellSupportProcedure, &extensionserverpb.CheckTerminalShellSupportRequest{})
		if used = err == nil && support.HasShellIntegration; used {
			if output, code, err = e.execute(x.ctx, line, run.Cwd); err != nil {
				return "", err
			}
		}
	}
	x.change(func(*geminicoder.Step) {
		run.CommandLine, run.UsedIdeTerminal, run.ExitCode = line, used, &code
		run.CombinedOutput = &cortexpb.RunCommandOutput{Full: output}
	})
	return fmt.Sprintf("Exit code: %d\n%s", code, output), nil
}

// execute runs a command in the terminal of the IDE: a header, data and a trailer.
func (e *extension) execute(ctx context.Context, line, dir string) (output string, code int32, err error) {
	stream, err := openStream[*codeiumcommonpb.TerminalShellCommandStreamChunk](ctx, e,
		extensionserverpbconnect.ExtensionServerServiceExecuteCommandProcedure, &extensionserverpb.ExecuteCommandRequest{CommandLine: line, Cwd: dir, TerminalId: newUUID()})
	if err != nil {
		return "", 0, err
	}
	defer stream.Close()
	var b strings.Builder
	for first := true; stream.Receive(); first = false {
		chunk := stream.Msg().Message.(*codeiumcommonpb.TerminalShellCommandStreamChunk)
		switch {
		case first != (chunk.GetHeader() != nil):
			return "", 0, fmt.Errorf("expected a header as first chunk of a command, and only there, got %T", chunk.Value)
		case chunk.GetTrailer() != nil:
			return b.String(), chunk.GetTrailer().GetExitCode(), nil
		}
		b.Write(chunk.GetData().GetRawData())
	}
	if err := stream.Err(); err != nil {
		return "", 0, err
	}
	return "", 0, errors.New("the stream of a command ended without a trailer")
}

// writeFile lets the IDE write; without one it waits for a permission and writes itself.
func writeFile(x execution) (string, error) {
	target := x.callArg("TargetFile")
	action := &cortexpb.CortexStepCodeAction{Description: "write " + filepath.Base(target)}
	x.setStep(cortexpb.CortexStepType_CORTEX_STEP_TYPE_CODE_ACTION, func(step *geminicoder.Step) { step.Step = &geminicoder.Step_CodeAction{CodeAction: action} })
	path, err := x.inside(target)
	if err != nil {
		return "", err
	}
	if e := x.k.all.p.extension; e != nil {
		_, err := call[*extensionserverpb.WriteCascadeEditResponse](x.ctx, e,
			extensionserverpbconnect.ExtensionServerServiceWriteCascadeEditProcedure, &extensionserverpb.WriteCascadeEditRequest{Uri: fileURI(path), TargetContent: x.callArg("CodeContent")})
		return "The file was written.", err
	}
	spec := &cortexpb.FilePermissionInteractionSpec{AbsolutePathUri: fileURI(path)}
	x.change(func(*geminicoder.Step) { action.FilePermissionRequest = spec })
	x.request(&cortexpb.RequestedInteraction{Interaction: &cortexpb.RequestedInteraction_FilePermission{FilePermission: spec}})
	decision, err := x.wait("file_permission")
	if err != nil {
		return "", err
	}
	if !decision.GetFilePermission().GetAllow() {
		return "", errors.New("the user did not allow to write the file")
	}
	return "The file was written.", os.WriteFile(path, []byte(x.callArg("CodeContent")), 0o644)
}

func readURL(x execution) (string, error) {
	read := &cortexpb.CortexStepReadUrlContent{Url: x.callArg("Url")}
	x.setStep(cortexpb.CortexStepType_CORTEX_STEP_TYPE_READ_URL_CONTENT, func(step *geminicoder.Step) { step.Step = &geminicoder.Step_ReadUrlContent{ReadUrlContent: read} })
	x.request(&cortexpb.RequestedInteraction{Interaction: &cortexpb.RequestedInteraction_ReadUrlContent{ReadUrlContent: &cortexpb.UnusedInteractionSpec{}}})
	decision, err := x.wait("read_url_content")
	if err != nil {
		return "", err
	}
	if !decision.GetReadUrlContent().GetConfirm() {
		x.change(func(*geminicoder.Step) { read.UserRejected = true })
		return "The user rejected the request.", nil
	}
	return "(the stand-in language server reads no pages)", nil
}

func searchWeb(x execution) (string, error) {
	search := &cortexpb.CortexStepSearchWeb{Query: x.callArg("query"), Summary: "(the stand-in language server does not search)"}
	x.setStep(cortexpb.CortexStepType_CORTEX_STEP_TYPE_SEARCH_WEB, func(step *geminicoder.Step) { step.Step = &geminicoder.Step_SearchWeb{SearchWeb: search} })
	return search.Summary, nil
}

// askQuestion waits for a choice of the user.
func askQuestion(x execution) (string, error) {
	entry := &cortexpb.AskQuestionEntry{Question: x.callArg("Question"), Options: []*cortexpb.AskQuestionOption{{Id: "1", Text: x.callArg("First")}, {Id: "2", Text: x.callArg("Second")}}}
	x.setStep(cortexpb.CortexStepType_CORTEX_STEP_TYPE_ASK_QUESTION, func(step *geminicoder.Step) {
		step.Step = &geminicoder.Step_AskQuestion{AskQuestion: &cortexpb.CortexStepAskQuestion{Questions: []*cortexpb.AskQuestionEntry{entry}}}
	})
	x.request(&cortexpb.RequestedInteraction{Interaction: &cortexpb.RequestedInteraction_AskQuestion{AskQuestion: &cortexpb.UnusedInteractionSpec{}}})
	decision, err := x.wait("ask_question")
	if err != nil {
		return "", err
	}
	answers := decision.GetAskQuestion()
	if answers.GetCancelled() || len(answers.GetResponses()) != 1 {
		return "The user did not answer.", nil
	}
	response := answers.Responses[0]
	x.change(func(*geminicoder.Step) {
		entry.SelectedOptionIds, entry.WriteInResponse, entry.Skipped = response.SelectedOptionIds, response.WriteInResponse, response.Skipped
	})
	return fmt.Sprintf("The user chose %s %s", strings.Join(response.SelectedOptionIds, ", "), response.WriteInResponse), nil
}

package standin

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"connectrpc.com/connect"

	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
	"perigee/gen/exa/language_server_pb/languageserverpbconnect"
	"perigee/internal/simulator"
	"perigee/internal/testing/perigeetest/await"
)

func TestConversationIsAnsweredByTheCloud(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{"generation=classic", "generation=classic2", "generation=hub", "belief=stream,bare", "belief=secret"} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			r := newServerRig(t, settings, simulator.Options{})
			cascade := r.say("[[think: a plan]][[text: Hello there.]][[chunks: 5]]")
			steps := r.finishes(cascade, 4)
			if got := kinds(steps); got != "USER_INPUT DONE, CONVERSATION_HISTORY DONE, PLANNER_RESPONSE DONE, CHECKPOINT DONE" {
				t.Fatalf("steps are %s", got)
			}
			planner := steps[2]
			if planner.text != "Hello there." || dig(planner.raw, "plannerResponse", "thinking") != "a plan" || dig(planner.raw, "plannerResponse", "stopReason") != "STOP_REASON_STOP_PATTERN" {
				t.Errorf("answered %v", planner.raw)
			}
			if dig(planner.raw, "metadata", "modelUsage", "inputTokens") == nil || dig(planner.raw, "metadata", "modelUsage", "outputTokens") == nil ||
				dig(planner.raw, "metadata", "completedAt") == nil || dig(planner.raw, "metadata", "generatorModel") != "MODEL_PLACEHOLDER_M18" {
				t.Errorf("metadata is %v", planner.raw["metadata"])
			}
			r.checkRequests(cascade)
		})
	}
}

// checkRequests holds what the cloud was sent against the envelope of the real client.
func (r *serverRig) checkRequests(cascade string) {
	r.t.Helper()
	agent := r.cloud.generations("agent")
	if len(agent) != 1 || len(r.cloud.generations("checkpoint")) != 1 || len(r.cloud.generations("tab")) != 1 {
		r.t.Fatalf("%d agent, %d checkpoint and %d tab requests", len(agent), len(r.cloud.generations("checkpoint")), len(r.cloud.generations("tab")))
	}
	request := agent[0]
	var e envelope
	check(r.t, json.Unmarshal(request.body, &e))
	trajectory, _ := dig(r.call("GetCascadeTrajectory", fmt.Sprintf(`{"cascadeId":%q}`, cascade)), "trajectory", "trajectoryId").(string)
	if !regexp.MustCompile("^agent/" + cascade + `/\d{13}/` + trajectory + `/1$`).MatchString(e.RequestID) {
		r.t.Errorf("requestId is %s", e.RequestID)
	}
	if at := strings.Index(string(request.body), `"requestId"`); at < 0 || at > 200 || at > strings.Index(string(request.body), `"request":`) {
		r.t.Errorf("requestId is at %d", at)
	}
	if e.Project != "sim-project-ada" || e.Model != "gemini-3-flash" || e.UserAgent != "antigravity" || e.Request.Labels["trajectory_id"] != trajectory ||
		e.Request.Labels["model_enum"] != "MODEL_PLACEHOLDER_M18" || !regexp.MustCompile(`^-?\d+$`).MatchString(e.Request.SessionID) {
		r.t.Errorf("envelope is %.400s", request.body)
	}
	if text := *e.Request.Contents[0].Parts[0].Text; !strings.HasPrefix(text, "<USER_REQUEST>\n[[think") || !strings.Contains(text, "<ADDITIONAL_METADATA>") || !strings.Contains(text, "<USER_SETTINGS_CHANGE>") {
		r.t.Errorf("the user said %q", text)
	}
	for _, tool := range e.Request.Tools {
		if len(tool.Functions) != 1 || tool.Functions[0].Parameters.Required[len(tool.Functions[0].Parameters.Required)-1] != "toolSummary" {
			r.t.Errorf("tool %v", tool)
		}
	}
	if want := fmt.Sprintf("antigravity/2.15.1 %s/%s", runtime.GOOS, runtime.GOARCH); request.agent != want || request.length != -1 || request.proto != "HTTP/1.1" {
		r.t.Errorf("User-Agent %q, length %d, %s", request.agent, request.length, request.proto)
	}
	check(r.t, json.Unmarshal(r.cloud.generations("checkpoint")[0].body, &e))
	if !strings.HasPrefix(e.RequestID, "checkpoint/") || e.Request.ToolConfig.Calling.Mode != "NONE" {
		r.t.Errorf("checkpoint %s with mode %s", e.RequestID, e.Request.ToolConfig.Calling.Mode)
	}
	for _, call := range r.cloud.sim.Calls() {
		if call.Status == 400 {
			r.t.Errorf("the cloud refused %s for %s", call.Path, call.Rule)
		}
	}
}

func TestTokenChangesWhileRunning(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{"generation=classic", "belief=secret,stream", "generation=hub"} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			r := newServerRig(t, settings, simulator.Options{})
			r.finishes(r.say("first"), 4)
			second := r.cloud.token("ada")
			if r.extension == nil {
				writeToken(t, r.home, second)
			} else {
				r.extension.setAccess(second)
			}
			await.Until(t, "a call with the new token", func() bool {
				r.finishes(r.say("again"), 4)
				agent := r.cloud.generations("agent")
				return agent[len(agent)-1].bearer == second
			})
			if r.extension == nil || strings.Contains(settings, "secret") {
				return
			}
			r.extension.setAccess("") // the row is deleted
			r.says("key not found")
			steps := r.finishes(r.say("signed out"), 3)
			if last := steps[len(steps)-1]; last.kind != "ERROR_MESSAGE" || !strings.Contains(fmt.Sprint(last.raw), "CREDENTIALS_MISSING") {
				t.Errorf("signed out: %v", last.raw)
			}
		})
	}
}

func TestModelsHaveNamesAndNumbers(t *testing.T) {
	t.Parallel()
	r := newServerRig(t, "generation=hub", simulator.Options{})
	models, _ := dig(r.call("GetAvailableModels", `{"forceRefresh":true}`), "response", "models").(map[string]any)
	if dig(models["gemini-3-flash"], "model") != "MODEL_PLACEHOLDER_M18" || dig(models["gemini-3-flash"], "displayName") != "Gemini 3 Flash" {
		t.Errorf("models are %v", models)
	}
	newer, _ := dig(models["gemini-3.7-flash-high"], "model").(string)
	configs, _ := dig(r.call("GetUserStatus", "{}"), "userStatus", "cascadeModelConfigData", "clientModelConfigs").([]any)
	if len(configs) != len(models) {
		t.Errorf("%d and %d models", len(configs), len(models))
	}
	found := false
	for _, config := range configs {
		found = found || dig(config, "modelOrAlias", "model") == newer && dig(config, "label") == "Gemini 3.7 Flash"
	}
	if !found || !strings.HasPrefix(newer, "MODEL_PLACEHOLDER_M") {
		t.Errorf("%s is not in %v", newer, configs)
	}
	id, _ := r.call("StartCascade", `{"cascadeId":"11111111-0000-4000-8000-000000000001"}`)["cascadeId"].(string)
	if again := r.call("StartCascade", `{"cascadeId":"11111111-0000-4000-8000-000000000001"}`)["cascadeId"]; id != again || id[0] != '1' {
		t.Errorf("started %s, then %s", id, again)
	}
	r.call("SendUserCascadeMessage", sendBody(id, "hi", `"cascadeConfig":{"plannerConfig":{"planModel":"`+newer+`"}}`))
	r.finishes(id, 4)
	var e envelope
	check(t, json.Unmarshal(r.cloud.generations("agent")[0].body, &e))
	if e.Model != "gemini-3.7-flash-high" || e.Request.Labels["model_enum"] != newer {
		t.Errorf("asked %s as %s", e.Model, e.Request.Labels["model_enum"])
	}
	if status, _ := r.post("GetAvailableModels", `{"refresh":true}`); status != 400 {
		t.Errorf("unknown member: %d", status)
	}
}

func TestMessageWithoutModel(t *testing.T) {
	t.Parallel()
	r := newServerRig(t, "", simulator.Options{})
	id := r.call("StartCascade", "{}")["cascadeId"].(string)
	if status, body := r.post("SendUserCascadeMessage", sendBody(id, "hi", "")); status != 500 || !strings.Contains(body, "neither PlanModel nor RequestedModel") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := r.post("SendUserCascadeMessage", sendBody("none", "hi", flash)); status != 500 || !strings.Contains(body, "run state not found") {
		t.Errorf("%d %s", status, body)
	}
	r = newServerRig(t, "generation=classic", simulator.Options{})
	id = r.call("StartCascade", "{}")["cascadeId"].(string)
	r.call("SendUserCascadeMessage", sendBody(id, "hi", ""))
	if steps := r.finishes(id, 2); kinds(steps) != "USER_INPUT DONE, CONVERSATION_HISTORY DONE" || len(r.cloud.generations("agent")) != 0 {
		t.Errorf("classic: %s", kinds(steps))
	}
}

func TestFailuresOfTheCloudAreToldInItsWords(t *testing.T) {
	t.Parallel()
	r := newServerRig(t, "", simulator.Options{})
	for fault, want := range map[string]struct {
		code  float64
		text  string
		calls int
	}{
		"rate_limit":      {429, "RATE_LIMIT_EXCEEDED", 2},
		"capacity":        {503, "MODEL_CAPACITY_EXHAUSTED", 2},
		"unauthorized":    {401, "authentication", 1},
		"banned":          {403, "ACCOUNT_DISABLED", 1},
		"internal_500":    {500, "INTERNAL", 1},
		"no_finish":       {0, "ended before its answer", 1},
		"array_error":     {500, "INTERNAL", 1},
		"reset":           {0, "reset|EOF", 1},
		"forbidden":       {403, "", 1},
		"version_too_old": {404, "not found", 1},
	} {
		before := len(r.cloud.generations("agent"))
		check(t, r.cloud.sim.AddFaults(simulator.Fault{Do: fault, When: simulator.When{Method: "streamGenerateContent"}, Times: want.calls}))
		steps := r.finishes(r.say("[[text: x]]"), 3)
		last := steps[len(steps)-1]
		code, _ := dig(last.raw, "errorMessage", "error", "errorCode").(float64)
		if last.kind != "ERROR_MESSAGE" || code != want.code || !regexp.MustCompile(want.text).MatchString(fmt.Sprint(last.raw)) {
			t.Errorf("%s: %s %v", fault, kinds(steps), last.raw)
		}
		if made := len(r.cloud.generations("agent")) - before; made != want.calls {
			t.Errorf("%s: %d calls", fault, made)
		}
	}
}

func TestNativeToolsWaitForTheUser(t *testing.T) {
	t.Parallel()
	r := newServerRig(t, "", simulator.Options{})
	cascade := r.say(`[[call: run_command {"CommandLine":"make","Cwd":"/w","toolAction":"a","toolSummary":"s"}]][[then]][[text: done]]`)
	index, waiting := r.waits(cascade)
	if waiting.kind != "RUN_COMMAND" || dig(waiting.raw, "runCommand", "commandLine") != "make" || dig(waiting.raw, "metadata", "toolCall", "name") != "run_command" {
		t.Fatalf("waits in %v", waiting.raw)
	}
	trajectory := dig(waiting.raw, "metadata", "sourceTrajectoryStepInfo", "trajectoryId")
	answer := func(trajectory any, index int, member string) (int, string) {
		return r.post("HandleCascadeUserInteraction", fmt.Sprintf(`{"cascadeId":%q,"interaction":{"trajectoryId":%q,"stepIndex":%d,%s}}`, cascade, trajectory, index, member))
	}
	confirm := `"runCommand":{"confirm":true,"proposedCommandLine":"make","submittedCommandLine":"make -s"}`
	for name, try := range map[string]func() (int, string){
		"planner step": func() (int, string) { return answer(trajectory, index-1, confirm) },
		"member":       func() (int, string) { return answer(trajectory, index, `"mcp":{"confirm":true}`) },
		"trajectory":   func() (int, string) { return answer(cascade, index, confirm) },
	} {
		if status, body := try(); status != 500 || !strings.Contains(body, "input not registered for step") {
			t.Errorf("wrong %s: %d %s", name, status, body)
		}
	}
	if status, body := answer(trajectory, index, confirm); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	steps := r.finishes(cascade, index+3)
	if got := kinds(steps[2:]); got != "PLANNER_RESPONSE DONE, RUN_COMMAND DONE, PLANNER_RESPONSE DONE, CHECKPOINT DONE" || steps[4].text != "done" ||
		dig(steps[3].raw, "runCommand", "commandLine") != "make -s" {
		t.Errorf("%s: %v", got, steps)
	}
	var e envelope
	check(t, json.Unmarshal(r.cloud.generations("agent")[1].body, &e))
	if n := len(e.Request.Contents); n != 3 || e.Request.Contents[2].Role != "model" || !strings.Contains(string(e.Request.Contents[2].Parts[0].Response), `{"output":`) {
		t.Errorf("results are %v", e.Request.Contents)
	}
	if _, body := r.post("HandleCascadeUserInteraction", fmt.Sprintf(`{"cascadeId":%q,"interaction":{"trajectoryId":%q,"stepIndex":%d,%s}}`, cascade, trajectory, index, confirm)); !strings.Contains(body, "input not registered") {
		t.Errorf("answered twice: %s", body)
	}
}

func TestNativeToolsStayInTheWorkspace(t *testing.T) {
	t.Parallel()
	r := newServerRig(t, "generation=hub", simulator.Options{})
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("contents of a"), 0o600))
	r.call("AddTrackedWorkspace", fmt.Sprintf(`{"workspace":%q}`, filepath.ToSlash(dir)))
	if status, _ := r.post("AddTrackedWorkspace", `{"workspace":"file:///w"}`); status != 400 {
		t.Errorf("a URI as workspace: %d", status)
	}
	cascade := r.say(`[[call: view_file {"AbsolutePath":"` + filepath.Join(dir, "a.txt") + `","toolAction":"a","toolSummary":"s"}]][[call: view_file {"AbsolutePath":"` + r.home + `/.gemini/x","toolAction":"a","toolSummary":"s"}]]`)
	steps := r.finishes(cascade, 7)
	if steps[3].kind != "VIEW_FILE" || dig(steps[3].raw, "viewFile", "content") != "contents of a" || steps[4].status != "ERROR" || !strings.Contains(fmt.Sprint(steps[4].raw), "outside the workspace") {
		t.Errorf("%s: %v", kinds(steps), steps)
	}
	cascade = r.say(`[[call: write_to_file {"TargetFile":"b.txt","CodeContent":"new","toolAction":"a","toolSummary":"s"}]]`)
	index, waiting := r.waits(cascade)
	if dig(waiting.raw, "requestedInteraction", "filePermission", "absolutePathUri") != fileURI(filepath.Join(dir, "b.txt")) {
		t.Errorf("waits in %v", waiting.raw)
	}
	r.call("HandleCascadeUserInteraction", fmt.Sprintf(`{"cascadeId":%q,"interaction":{"trajectoryId":%q,"stepIndex":%d,"filePermission":{"allow":true,"scope":"PERMISSION_SCOPE_ONCE"}}}`,
		cascade, dig(waiting.raw, "metadata", "sourceTrajectoryStepInfo", "trajectoryId"), index))
	r.finishes(cascade, index+2)
	if text, err := os.ReadFile(filepath.Join(dir, "b.txt")); err != nil || string(text) != "new" {
		t.Errorf("wrote %q, %v", text, err)
	}
}

func TestTurnIsCanceled(t *testing.T) {
	t.Parallel()
	r := newServerRig(t, "", simulator.Options{})
	cascade := r.say("[[think: a plan]][[tokens: 400]][[chunks: 400]][[pace: 50ms]]")
	await.Until(t, "a growing step", func() bool {
		_, steps := r.steps(cascade)
		return len(steps) == 3 && steps[2].status == "GENERATING" && steps[2].text != ""
	})
	r.call("CancelCascadeInvocation", fmt.Sprintf(`{"cascadeId":%q}`, cascade))
	steps := r.finishes(cascade, 3)
	if kinds(steps[2:]) != "PLANNER_RESPONSE CANCELED" || dig(steps[2].raw, "plannerResponse", "stopReason") != "STOP_REASON_CLIENT_CANCELED" {
		t.Errorf("%s", kinds(steps))
	}
	r.call("SendUserCascadeMessage", sendBody(cascade, "[[text: next]]", flash))
	if steps := r.finishes(cascade, 7); steps[5].text != "next" {
		t.Errorf("%s", kinds(steps))
	}
}

func TestBusyConversationQueuesMessages(t *testing.T) {
	t.Parallel()
	r := newServerRig(t, "generation=classic", simulator.Options{})
	cascade := r.say("[[text: hold on]]")
	if answer := r.call("SendUserCascadeMessage", sendBody(cascade, "[[text: second]]", flash)); answer["queued"] != true {
		t.Errorf("answered %v", answer)
	}
	close(r.cloud.hold)
	steps := r.finishes(cascade, 5)
	if !strings.Contains(kinds(steps), "USER_INPUT QUEUED") {
		t.Errorf("%s", kinds(steps))
	}
	r.call("SendAllQueuedMessages", fmt.Sprintf(`{"cascadeId":%q}`, cascade))
	if steps := r.finishes(cascade, 7); strings.Contains(kinds(steps), "QUEUED") || steps[5].text != "second" {
		t.Errorf("%s", kinds(steps))
	}
	r = newServerRig(t, "generation=hub", simulator.Options{})
	cascade = r.say("[[text: hold on]]")
	if answer := r.call("SendUserCascadeMessage", sendBody(cascade, "[[text: second]]", flash)); len(answer) != 0 {
		t.Errorf("answered %v", answer)
	}
	close(r.cloud.hold)
	if steps := r.finishes(cascade, 8); steps[6].text != "second" {
		t.Errorf("%s", kinds(steps))
	}
}

func TestConversationIsRevertedLoadedAndDeleted(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{"generation=classic page=3", "generation=hub page=3", "generation=hub page=3 store=db"} {
		r := newServerRig(t, settings, simulator.Options{})
		cascade := r.say("[[text: one]]")
		r.finishes(cascade, 4)
		r.call("SendUserCascadeMessage", sendBody(cascade, "[[text: two]]", flash))
		r.finishes(cascade, 8)
		if answer := r.call("GetCascadeTrajectory", fmt.Sprintf(`{"cascadeId":%q}`, cascade)); len(dig(answer, "trajectory", "steps").([]any)) != 3 || answer["numTotalSteps"] != 8.0 {
			t.Errorf("a page is %v", answer)
		}
		if metadata := r.call("GetCascadeTrajectoryGeneratorMetadata", fmt.Sprintf(`{"cascadeId":%q,"generatorMetadataOffset":1}`, cascade)); dig(metadata, "generatorMetadata", 0, "chatModel", "responseModel") == nil || dig(metadata, "generatorMetadata", 1) != nil {
			t.Errorf("generator metadata is %v", metadata)
		}
		body := fmt.Sprintf(`{"cascadeId":%q,"stepIndex":3`, cascade)
		if status, text := r.post("RevertToCascadeStep", body+"}"); status != 500 || !strings.Contains(text, "plan model not specified") {
			t.Errorf("%d %s", status, text)
		}
		r.call("RevertToCascadeStep", body+`,"overrideConfig":{"plannerConfig":{"planModel":"MODEL_PLACEHOLDER_M18"}}}`)
		if _, steps := r.steps(cascade); len(steps) != 4 {
			t.Errorf("reverted to %s", kinds(steps))
		}
		r.call("SendUserCascadeMessage", sendBody(cascade, "[[text: three]]", flash))
		r.finishes(cascade, 8)
		agent := r.cloud.generations("agent")
		if text := string(agent[len(agent)-1].body); strings.Contains(text, "[[text: two]]") || !strings.Contains(text, "[[text: one]]") {
			t.Errorf("the history is %s", text)
		}

		check(t, r.cmd.Process.Kill())
		r.ends()
		r.start(t, r.home)
		if r.extension == nil {
			r.finishes(cascade, 8)
		} else {
			if status, _ := r.post("GetCascadeTrajectory", fmt.Sprintf(`{"cascadeId":%q}`, cascade)); status != 500 {
				t.Errorf("it is loaded already: %d", status)
			}
			r.call("LoadTrajectory", fmt.Sprintf(`{"cascadeId":%q}`, cascade))
		}
		r.call("SendUserCascadeMessage", sendBody(cascade, "[[text: four]]", flash))
		if steps := r.finishes(cascade, 12); steps[10].text != "four" {
			t.Errorf("%s", kinds(steps))
		}
		if dig(r.call("GetAllCascadeTrajectories", "{}"), "trajectorySummaries", cascade, "stepCount") != 12.0 {
			t.Error("no summary")
		}
		r.call("DeleteCascadeTrajectory", fmt.Sprintf(`{"cascadeId":%q}`, cascade))
		if status, _ := r.post("GetCascadeTrajectory", fmt.Sprintf(`{"cascadeId":%q}`, cascade)); status != 500 {
			t.Errorf("deleted: %d", status)
		}
		if left, _ := filepath.Glob(filepath.Join(r.home, ".gemini", "*", "conversations", cascade+"*")); len(left) != 0 {
			t.Errorf("left %q", left)
		}
	}
}

// updates opens a stream of updates.
func (r *serverRig) updates(ctx context.Context, cascade, subscriber string) (next func() (map[string]any, error)) {
	r.t.Helper()
	body := fmt.Sprintf(`{"conversationId":%q,"subscriberId":%q}`, cascade, subscriber)
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
	request, err := http.NewRequestWithContext(ctx, "POST", r.plain()+"/exa.language_server_pb.LanguageServerService/StreamAgentStateUpdates", strings.NewReader(string(frame)))
	check(r.t, err)
	request.Header.Set("Content-Type", "application/connect+json")
	request.Header.Set(csrfHeader, testCSRF)
	response, err := http.DefaultClient.Do(request)
	check(r.t, err)
	r.t.Cleanup(func() { response.Body.Close() })
	in := bufio.NewReader(response.Body)
	return func() (map[string]any, error) {
		var head [5]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil, err
		}
		text := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		var message map[string]any
		if err := json.Unmarshal(text, &message); err != nil {
			return nil, err
		}
		if head[0] == 2 {
			return nil, fmt.Errorf("ended: %s", text)
		}
		return message["update"].(map[string]any), nil
	}
}

func TestUpdatesAreStreamed(t *testing.T) {
	t.Parallel()
	r := newServerRig(t, "", simulator.Options{})
	cascade := r.call("StartCascade", "{}")["cascadeId"].(string)
	next := r.updates(t.Context(), cascade, "one")
	snapshot, err := next()
	check(t, err)
	if snapshot["status"] != "CASCADE_RUN_STATUS_IDLE" || snapshot["conversationId"] != cascade {
		t.Errorf("the snapshot is %v", snapshot)
	}
	r.call("SendUserCascadeMessage", sendBody(cascade, "[[text: a longer text]][[chunks: 4]]", flash))
	var order []string
	grown, text := 0, ""
	for {
		update, err := next()
		check(t, err)
		what, _ := update["status"].(string)
		if kind, ok := dig(update, "mainTrajectoryUpdate", "stepsUpdate", "steps", 0, "type").(string); ok {
			what = kind
			if response, ok := dig(update, "mainTrajectoryUpdate", "stepsUpdate", "steps", 0, "plannerResponse", "response").(string); ok && response != text {
				if !strings.HasPrefix(response, text) {
					t.Errorf("%q became %q", text, response)
				}
				text = response
				grown++
			}
		}
		if what != "" && (len(order) == 0 || order[len(order)-1] != what) {
			order = append(order, what)
		}
		if what == "CASCADE_RUN_STATUS_IDLE" {
			break
		}
	}
	want := "CASCADE_RUN_STATUS_RUNNING CORTEX_STEP_TYPE_USER_INPUT CORTEX_STEP_TYPE_CONVERSATION_HISTORY CORTEX_STEP_TYPE_PLANNER_RESPONSE CORTEX_STEP_TYPE_CHECKPOINT CASCADE_RUN_STATUS_IDLE"
	if got := strings.Join(order, " "); got != want || grown != 4 || text != "a longer text" {
		t.Errorf("%s; %d chunks, %q", got, grown, text)
	}
	second := r.updates(t.Context(), cascade, "one")
	if _, err := next(); err == nil || !strings.Contains(err.Error(), "subscription closed by repeat id") {
		t.Errorf("the first stream: %v", err)
	}
	if snapshot, err := second(); err != nil || len(dig(snapshot, "mainTrajectoryUpdate", "stepsUpdate", "steps").([]any)) != 4 {
		t.Errorf("the second snapshot: %v", err)
	}
	await.Until(t, "a pushed summary of the conversation", func() bool {
		for _, push := range r.extension.seen("PushUnifiedStateSyncUpdate") {
			if strings.Contains(string(push.message), cascade) {
				return true
			}
		}
		return false
	})
}

func TestAskedQuestionsAndEagerCommands(t *testing.T) {
	t.Parallel()
	r := newServerRig(t, "generation=hub", simulator.Options{})
	cascade := r.say(`[[call: ask_question {"Question":"which?","First":"red","Second":"blue","toolAction":"a","toolSummary":"s"}]]`)
	index, waiting := r.waits(cascade)
	if _, asked := dig(waiting.raw, "requestedInteraction", "askQuestion").(map[string]any); !asked || dig(waiting.raw, "askQuestion", "questions", 0, "options", 1, "text") != "blue" {
		t.Errorf("waits in %v", waiting.raw)
	}
	r.call("HandleCascadeUserInteraction", fmt.Sprintf(`{"cascadeId":%q,"interaction":{"trajectoryId":%q,"stepIndex":%d,"askQuestion":{"responses":[{"question":"which?","selectedOptionIds":["2"]}]}}}`,
		cascade, dig(waiting.raw, "metadata", "sourceTrajectoryStepInfo", "trajectoryId"), index))
	r.finishes(cascade, index+3)
	if agent := r.cloud.generations("agent"); !strings.Contains(string(agent[len(agent)-1].body), "The user chose 2") {
		t.Errorf("told %s", agent[len(agent)-1].body)
	}

	started := r.call("StartCascade", `{"projectEnvConfig":{"projectId":"p","defaultProjectEnvironment":{}}}`)["cascadeId"].(string)
	for body, want := range map[string]string{
		`{"projectEnvConfig":{"projectId":"p"},"workspaceUris":["file:///w"]}`: "cannot specify both",
		`{"projectEnvConfig":{}}`: "project_id is required",
	} {
		if status, text := r.post("StartCascade", body); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	policy := strings.Replace(flash, `"planModel"`, `"toolConfig":{"runCommand":{"autoCommandConfig":{"autoExecutionPolicy":"CASCADE_COMMANDS_AUTO_EXECUTION_EAGER"}}},"planModel"`, 1)
	r.call("SendUserCascadeMessage", sendBody(started, `[[call: run_command {"CommandLine":"make","Cwd":"/w","toolAction":"a","toolSummary":"s"}]][[then]][[text: made]]`, policy))
	await.Until(t, "the first step", func() bool { _, steps := r.steps(started); return len(steps) > 0 })
	if idle := r.call("WaitForConversationFullyIdle", fmt.Sprintf(`{"conversationId":%q,"inactivityTimeoutSeconds":60,"stabilizationDurationSeconds":0.1,"returnOnExecutorError":true}`, started)); len(idle) != 0 {
		t.Errorf("idle: %v", idle)
	}
	if _, steps := r.steps(started); kinds(steps[3:5]) != "RUN_COMMAND DONE, PLANNER_RESPONSE DONE" || steps[4].text != "made" {
		t.Errorf("%s", kinds(steps))
	}
}

func TestOtherProtocolsAreSpoken(t *testing.T) {
	t.Parallel()
	r := newServerRig(t, "", simulator.Options{})
	var h2 http.Protocols
	h2.SetUnencryptedHTTP2(true)
	httpClient := &http.Client{Transport: &http.Transport{Protocols: &h2}}
	defer httpClient.CloseIdleConnections()
	for name, options := range map[string][]connect.ClientOption{"gRPC": {connect.WithGRPC()}, "gRPC-web": {connect.WithGRPCWeb()}, "Connect with protobuf": nil} {
		csrf := connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
				request.Header().Set(csrfHeader, testCSRF)
				return next(ctx, request)
			}
		}))
		client := languageserverpbconnect.NewLanguageServerServiceClient(httpClient, r.plain(), append(options, csrf)...)
		status, err := client.GetUserStatus(t.Context(), connect.NewRequest(&languageserverpb.GetUserStatusRequest{}))
		if err != nil || len(status.Msg.UserStatus.GetCascadeModelConfigData().GetClientModelConfigs()) == 0 {
			t.Errorf("%s: %v", name, err)
		}
		cascade, err := client.StartCascade(t.Context(), connect.NewRequest(&languageserverpb.StartCascadeRequest{}))
		check(t, err)
		request := connect.NewRequest(&jetskicortexpb.StreamAgentStateUpdatesRequest{ConversationId: cascade.Msg.CascadeId, SubscriberId: name})
		request.Header().Set(csrfHeader, testCSRF)
		stream, err := client.StreamAgentStateUpdates(t.Context(), request)
		check(t, err)
		if !stream.Receive() || stream.Msg().Update.ConversationId != cascade.Msg.CascadeId {
			t.Errorf("%s: %v", name, stream.Err())
		}
		_ = stream.Close()
	}
}

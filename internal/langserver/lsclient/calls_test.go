package lsclient

import (
	"io"
	"net/http"
	"testing"

	cortexpb "perigee/gen/exa/cortex_pb"

	"perigee"
)

// Each call sends the JSON that the strict handler accepts, and exactly this.
func TestCallsSendTheirRequest(t *testing.T) {
	server := newServer()
	c := connected(serve(t, server))
	const turn = `{"plannerConfig":{"conversational":{"plannerMode":"CONVERSATIONAL_PLANNER_MODE_DEFAULT"},"planModel":"MODEL_PLACEHOLDER_M18",` +
		`"requestedModel":{"model":"MODEL_PLACEHOLDER_M18"},"toolConfig":{"runCommand":{"autoCommandConfig":{"autoExecutionPolicy":"CASCADE_COMMANDS_AUTO_EXECUTION_OFF"}}}}}`
	ctx := t.Context()
	for _, call := range []struct {
		method, body string
		make         func() error
	}{
		{"Heartbeat", `{}`, func() error { return c.Heartbeat(ctx) }},
		{"Exit", `{}`, func() error { return c.Exit(ctx) }},
		{"CancelCascadeInvocation", `{"cascadeId":"c"}`, func() error { return c.Cancel(ctx, "c") }},
		{"DeleteCascadeTrajectory", `{"cascadeId":"c"}`, func() error { return c.Delete(ctx, "c") }},
		{"AddTrackedWorkspace", `{"workspace":"/home/ada/src"}`, func() error { return c.AddTrackedWorkspace(ctx, "/home/ada/src") }},
		{"SendAllQueuedMessages", `{"cascadeConfig":` + turn + `,"cascadeId":"c"}`, func() error { return c.SendAllQueued(ctx, "c", "MODEL_PLACEHOLDER_M18", false) }},
		{"SendUserCascadeMessage", `{"cascadeConfig":` + turn + `,"cascadeId":"c","items":[{"text":"hi"}]}`, func() error {
			_, err := c.Send(ctx, "c", Message{Text: "hi", Model: "MODEL_PLACEHOLDER_M18"})
			return err
		}},
		{"HandleCascadeUserInteraction", `{"cascadeId":"c","interaction":{"trajectoryId":"t","stepIndex":4,"runCommand":{"confirm":true}}}`, func() error {
			return c.Interact(ctx, "c", &cortexpb.CascadeUserInteraction{TrajectoryId: "t", StepIndex: 4,
				Interaction: &cortexpb.CascadeUserInteraction_RunCommand{RunCommand: &cortexpb.CascadeRunCommandInteraction{Confirm: true}}})
		}},
		{"StartCascade", `{"cascadeId":"c","source":"CORTEX_TRAJECTORY_SOURCE_CASCADE_CLIENT","trajectoryType":"CORTEX_TRAJECTORY_TYPE_CASCADE","workspaceUris":["file:///w"]}`, func() error {
			_, err := c.Start(ctx, StartOptions{Cascade: "c", Workspaces: []string{"file:///w"}})
			return err
		}},
		{"GetAllCascadeTrajectories", `{}`, func() error { _, err := c.Conversations(ctx); return err }},
	} {
		var got string
		server.handle(call.method, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = compact(t, body)
			_, _ = io.WriteString(w, `{}`)
			if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Connect-Protocol-Version") != "1" {
				t.Errorf("%s: %s %v", call.method, r.Method, r.Header)
			}
		})
		if err := call.make(); err != nil || got != compact(t, []byte(call.body)) {
			t.Errorf("%s: %v\n%s, want\n%s", call.method, err, got, call.body)
		}
		// The strict handler knows all names; it may miss the method or the conversation.
		server.handle(call.method, nil)
		if err := call.make(); err != nil && perigee.AsError(err).Class == perigee.ClassInvalid {
			t.Errorf("%s: %v", call.method, err)
		}
	}
}

// Later versions may choose the id of a conversation themselves.
func TestServerNamesTheConversation(t *testing.T) {
	server := newServer()
	c := connected(serve(t, server))
	server.answer("StartCascade", 200, `{"cascadeId":"theirs","projectEnvInfo":{"environmentId":"e"}}`)
	if cascade, err := c.Start(t.Context(), StartOptions{Cascade: "ours"}); err != nil || cascade != "theirs" {
		t.Error(cascade, err)
	}
}

func TestReady(t *testing.T) {
	server := newServer()
	c := connected(serve(t, server))
	for _, models := range []bool{false, true} {
		if err := c.Ready(t.Context(), models); err != nil {
			t.Error(err)
		}
	}
	server.answer("GetUserStatus", 200, `{"userStatus":{"email":"ada@example.com","cascadeModelConfigData":{}}}`)
	wantClass(t, c.Ready(t.Context(), true), perigee.ClassUnavailable)
	if err := c.Ready(t.Context(), false); err != nil {
		t.Error(err)
	}
	server.answer("GetUserStatus", 401, `{"code":"unauthenticated","message":"CREDENTIALS_MISSING"}`)
	wantClass(t, c.Ready(t.Context(), true), perigee.ClassUnauthenticated)
	server.answer("Heartbeat", 200, `<html>`)
	wantClass(t, c.Ready(t.Context(), false), perigee.ClassUnavailable)
}

func TestConversations(t *testing.T) {
	server := newServer()
	c := connected(serve(t, server))
	server.answer("GetAllCascadeTrajectories", 200, `{"trajectorySummaries":{"a":{"summary":"Hello","stepCount":3,"status":"CASCADE_RUN_STATUS_RUNNING","waitingSteps":[{"stepIndex":2}]},"b":{}}}`)
	all, err := c.Conversations(t.Context())
	if err != nil || len(all) != 2 || all["a"].StepCount != 3 || all["a"].Status != 2 || all["a"].WaitingSteps[0].StepIndex != 2 {
		t.Error(all, err)
	}
}

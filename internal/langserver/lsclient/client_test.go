package lsclient

import (
	"context"
	"fmt"
	"strings"
	"testing"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"

	"perigee"
)

func TestAConversation(t *testing.T) {
	for _, transport := range []struct {
		name  string
		serve func(testing.TB, *serverRig) Endpoint
	}{{"HTTP", serve}, {"TLS", serveTLS}} {
		t.Run(transport.name, func(t *testing.T) {
			server := newServer()
			c := New(Options{Endpoint: Fixed(transport.serve(t, server)), Version: "1.20.6"})
			ctx := t.Context()
			if err := c.Ready(ctx, true); err != nil {
				t.Fatal(err)
			}
			cascade, err := c.Start(ctx, StartOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(cascade) != 36 || server.started[0].GetMetadata().GetIdeVersion() != "1.20.6" {
				t.Errorf("started %q with %v", cascade, server.started[0])
			}
			for range 3 {
				if queued, err := c.Send(ctx, cascade, Message{Text: "hello", Model: "MODEL_PLACEHOLDER_M18"}); err != nil || queued {
					t.Fatal(queued, err)
				}
			}
			trajectory, err := c.Trajectory(ctx, cascade)
			if err != nil || trajectory.NumTotalSteps != 6 || len(trajectory.Trajectory.Steps) != 2 || trajectory.Trajectory.TrajectoryId != "t-"+cascade {
				t.Fatal(trajectory, err)
			}
			for offset := range 8 {
				steps, err := c.Steps(ctx, cascade, offset)
				if err != nil || len(steps) != max(6-offset, 0) {
					t.Fatalf("%d steps from %d on: %v", len(steps), offset, err)
				}
			}
			for update, err := range c.Updates(ctx, cascade) {
				if err != nil || update.MainTrajectoryUpdate.StepsUpdate.TotalLength != 6 {
					t.Fatal(update, err)
				}
				break
			}
		})
	}
}

func TestAMessageNamesModelModeAndPolicy(t *testing.T) {
	for _, model := range []string{"MODEL_PLACEHOLDER_M18", "1018"} {
		server := newServer()
		c := connected(serve(t, server))
		cascade, err := c.Start(t.Context(), StartOptions{Cascade: "my-own-id"})
		if err != nil || cascade != "my-own-id" {
			t.Fatal(cascade, err)
		}
		server.cascades[cascade].busy = true
		queued, err := c.Send(t.Context(), cascade, Message{Text: "hello", Model: model, ReadOnly: true})
		if err != nil || !queued {
			t.Fatal(queued, err)
		}
		sent := server.sent[0]
		planner := sent.CascadeConfig.PlannerConfig
		if planner.PlanModel != codeiumcommonpb.Model_MODEL_PLACEHOLDER_M18 || planner.RequestedModel.GetModel() != planner.PlanModel {
			t.Errorf("models %v", planner)
		}
		if planner.GetConversational().PlannerMode != codeiumcommonpb.ConversationalPlannerMode_CONVERSATIONAL_PLANNER_MODE_READ_ONLY {
			t.Errorf("mode %v", planner)
		}
		if planner.ToolConfig.RunCommand.AutoCommandConfig.AutoExecutionPolicy != codeiumcommonpb.CascadeCommandsAutoExecution_CASCADE_COMMANDS_AUTO_EXECUTION_OFF {
			t.Errorf("policy %v", planner)
		}
		if sent.Items[0].GetText() != "hello" {
			t.Errorf("sent %v", sent)
		}
	}
}

func TestAMessageWithoutAModelIsNotSent(t *testing.T) {
	server := newServer()
	_, err := connected(serve(t, server)).Send(t.Context(), "x", Message{Text: "hello"})
	wantClass(t, err, perigee.ClassInvalid)
	if server.calls("SendUserCascadeMessage") != 0 {
		t.Error("it was sent")
	}
}

func TestModelsAreJoined(t *testing.T) {
	server := newServer()
	c := connected(serve(t, server))
	models, err := c.Models(t.Context())
	if err != nil || len(models) != 2 || models[1].ID != "" || models[1].Enum != "MODEL_PLACEHOLDER_M18" || !models[1].Images || !models[0].Disabled {
		t.Fatalf("without ids: %+v, %v", models, err)
	}
	for _, member := range []string{`{"response":%}`, `{"availableModels":%}`, `%`} {
		server.answer("GetAvailableModels", 200, strings.Replace(member, "%", `{"models":{
			"gemini-3-flash":{"model":"MODEL_PLACEHOLDER_M18","displayName":"Flash","quotaInfo":{"remainingFraction":0.5,"resetTime":"2026-08-22T17:10:00Z"},"maxTokens":"many"},
			"new":{"model":"MODEL_PLACEHOLDER_M999","displayName":"New","quotaInfo":{"resetTime":"2026-08-22T17:10:00Z"}},
			"numbered":{"model":1042,"displayName":"Old","quotaInfo":{}},
			"broken":17}}`, 1))
		models, err = c.Models(t.Context())
		if err != nil || len(models) != 3 {
			t.Fatalf("%s: %+v, %v", member, models, err)
		}
		flash, fresh, old := models[0], models[1], models[2]
		if flash.ID != "gemini-3-flash" || flash.Label != "Gemini 3 Flash" || !flash.Images || flash.Remaining == nil || *flash.Remaining != 0.5 {
			t.Errorf("%+v", flash)
		}
		if fresh.Enum != "MODEL_PLACEHOLDER_M999" || fresh.Remaining == nil || *fresh.Remaining != 0 {
			t.Errorf("%+v", fresh)
		}
		if old.Enum != "1042" || old.Remaining != nil {
			t.Errorf("%+v", old)
		}
	}
}

// A second subscription would end the first one if both had the same id.
func TestSubscriptionsHaveTheirOwnIDs(t *testing.T) {
	server := newServer()
	c := connected(serve(t, server))
	cascade, err := c.Start(t.Context(), StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range c.Updates(ctx, cascade) {
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range c.Updates(ctx, cascade) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		break
	}
	if len(server.subscribers) != 2 {
		t.Errorf("%d subscribers", len(server.subscribers))
	}
}

func TestIDsAreRandomUUIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		token := NewID()
		var parts [5]uint64
		if n, err := fmt.Sscanf(token, "%08x-%04x-4%03x-%04x-%012x", &parts[0], &parts[1], &parts[2], &parts[3], &parts[4]); n != 5 || err != nil {
			t.Errorf("%s: %v", token, err)
		}
		seen[token] = true
	}
	if len(seen) != 100 {
		t.Errorf("%d different tokens", len(seen))
	}
}

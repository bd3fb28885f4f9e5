package lsclient

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
	geminicoder "perigee/gen/gemini_coder"
)

func TestDecodeReadsWhatFits(t *testing.T) {
	planner := func(p *cortexpb.CortexStepPlannerResponse) *geminicoder.Step {
		return &geminicoder.Step{Step: &geminicoder.Step_PlannerResponse{PlannerResponse: p}}
	}
	for _, c := range []struct {
		name, text string
		want       *geminicoder.Step
	}{
		{"nothing", `{}`, &geminicoder.Step{}},
		{"enums by name", `{"type":"CORTEX_STEP_TYPE_USER_INPUT","status":"CORTEX_STEP_STATUS_DONE"}`, &geminicoder.Step{Type: 14, Status: 3}},
		{"enums by number", `{"type":14,"status":"3"}`, &geminicoder.Step{Type: 14, Status: 3}},
		{"an unknown number", `{"type":4711}`, &geminicoder.Step{Type: 4711}},
		{"an unknown name", `{"type":"CORTEX_STEP_TYPE_DANCE","status":3}`, &geminicoder.Step{Status: 3}},
		{"a name without a published number", `{"status":"CORTEX_STEP_STATUS_HALTED"}`, &geminicoder.Step{Status: 12}},
		{"a new model", `{"metadata":{"generatorModel":"MODEL_PLACEHOLDER_M999"}}`, &geminicoder.Step{Metadata: &cortexpb.CortexStepMetadata{GeneratorModel: 1999}}},
		{"a step named like a model", `{"type":"MODEL_PLACEHOLDER_M7"}`, &geminicoder.Step{}},
		{"unknown members", `{"later":{"deep":[{"er":1}]},"status":3}`, &geminicoder.Step{Status: 3}},
		{"names of the proto file", `{"planner_response":{"stop_reason":2}}`, planner(&cortexpb.CortexStepPlannerResponse{StopReason: 2})},
		{"null", `{"status":null,"plannerResponse":{"response":null,"toolCalls":null}}`, planner(&cortexpb.CortexStepPlannerResponse{})},
		{"another type", `{"status":[3],"metadata":"none","plannerResponse":{"response":"yes","thinking":{},"toolCalls":"none","thinkingSignature":7}}`,
			planner(&cortexpb.CortexStepPlannerResponse{Response: "yes"})},
		{"numbers in place of text", `{"plannerResponse":{"response":12.50,"messageId":true}}`, planner(&cortexpb.CortexStepPlannerResponse{Response: "12.50", MessageId: "true"})},
		{"integers", `{"metadata":{"modelUsage":{"inputTokens":"12","outputTokens":34,"cacheReadTokens":1e3,"cacheWriteTokens":"18446744073709551615","thinkingOutputTokens":-1,"responseOutputTokens":1.5}}}`,
			&geminicoder.Step{Metadata: &cortexpb.CortexStepMetadata{ModelUsage: &codeiumcommonpb.ModelUsageStats{InputTokens: 12, OutputTokens: 34, CacheReadTokens: 1000, CacheWriteTokens: 1<<64 - 1}}}},
		{"booleans", `{"plannerResponse":{"thinkingRedacted":"true"}}`, planner(&cortexpb.CortexStepPlannerResponse{ThinkingRedacted: true})},
		{"bytes", `{"plannerResponse":{"thinkingSignature":"-_8"}}`, planner(&cortexpb.CortexStepPlannerResponse{ThinkingSignature: []byte{0xfb, 0xff}})},
		{"times", `{"metadata":{"createdAt":"2026-03-04T05:06:07.5+02:00","viewableAt":{"seconds":"9","nanos":1},"completedAt":"yesterday"},"plannerResponse":{"thinkingDuration":"-1.5s"}}`,
			&geminicoder.Step{
				Metadata: &cortexpb.CortexStepMetadata{CreatedAt: &timestamppb.Timestamp{Seconds: 1772593567, Nanos: 5e8}, ViewableAt: &timestamppb.Timestamp{Seconds: 9, Nanos: 1}},
				Step:     &geminicoder.Step_PlannerResponse{PlannerResponse: &cortexpb.CortexStepPlannerResponse{ThinkingDuration: &durationpb.Duration{Seconds: -1, Nanos: -5e8}}}}},
		{"two members of a oneof", `{"userInput":{},"plannerResponse":{"response":"last"}}`, planner(&cortexpb.CortexStepPlannerResponse{Response: "last"})},
		{"one member twice", `{"status":2,"status":3}`, &geminicoder.Step{Status: 3}},
		{"half a character", `{"plannerResponse":{"response":"a\ud800b"}}`, planner(&cortexpb.CortexStepPlannerResponse{Response: "a\uFFFDb"})},
		{"no UTF-8", "{\"plannerResponse\":{\"response\":\"a\xffb\"}}", planner(&cortexpb.CortexStepPlannerResponse{Response: "a\uFFFDb"})},
	} {
		got := &geminicoder.Step{}
		if err := decode([]byte(c.text), got); err != nil || !proto.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}

func TestDecodeKeepsPlacesInLists(t *testing.T) {
	update := &jetskicortexpb.StepsUpdate{}
	if err := decode([]byte(`{"indices":[3,"4",5],"steps":[{"status":3},"broken",{"status":2}],"totalLength":6}`), update); err != nil {
		t.Fatal(err)
	}
	if len(update.Indices) != 3 || len(update.Steps) != 3 || update.Steps[0].Status != 3 || update.Steps[2].Status != 2 {
		t.Errorf("%v", update)
	}
}

func TestDecodeReadsMaps(t *testing.T) {
	all := &languageserverpb.GetAllCascadeTrajectoriesResponse{}
	if err := decode([]byte(`{"trajectorySummaries":{"a":{"stepCount":3},"b":7}}`), all); err != nil {
		t.Fatal(err)
	}
	if len(all.TrajectorySummaries) != 1 || all.TrajectorySummaries["a"].GetStepCount() != 3 {
		t.Errorf("%v", all)
	}
}

func TestDecodeRejectsWhatIsNoMessage(t *testing.T) {
	for _, text := range []string{"", "{", "<html>", "[]", `"ok"`, "null", `{"status":3}}`, strings.Repeat(`{"subtrajectory":`, 20000)} {
		if err := decode([]byte(text), &geminicoder.Step{}); err == nil {
			t.Errorf("%.20q is accepted", text)
		}
	}
}

func TestDecodeEndsInDeepConversations(t *testing.T) {
	text := strings.Repeat(`{"subtrajectory":{"steps":[`, 3000) + strings.Repeat(`]}}`, 3000)
	if err := decode([]byte(text), &geminicoder.Step{}); err != nil {
		t.Error(err)
	}
}

// FuzzDecodeAgreesWithProtojson decodes what protojson writes of any message, and what it reads of
// any text.
func FuzzDecodeAgreesWithProtojson(f *testing.F) {
	f.Add([]byte(`{"update":{"status":"CASCADE_RUN_STATUS_IDLE","mainTrajectoryUpdate":{"stepsUpdate":{"indices":[0],"steps":[{"metadata":{"createdAt":"2026-03-04T05:06:07Z","modelCost":0.5}}],"totalLength":1}}}}`))
	f.Add([]byte(`{"update":{"subtrajectoryUpdates":{"a":{"status":1}},"executorMetadata":{"lastStepIdx":-3}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := &jetskicortexpb.StreamAgentStateUpdatesResponse{}
		err := decode(data, got)
		if err == nil {
			if _, err := proto.Marshal(got); err != nil {
				t.Fatalf("%q: %v", data, err)
			}
		}
		want := &jetskicortexpb.StreamAgentStateUpdatesResponse{}
		// protojson also reads numbers such as 3e, which is no JSON.
		if json.Valid(data) && protojson.Unmarshal(data, want) == nil && (err != nil || !proto.Equal(got, want)) {
			t.Fatalf("%q: decoded as %v, %v; protojson reads %v", data, got, err, want)
		}
		if proto.Unmarshal(data, want) != nil {
			return
		}
		text, err := protojson.Marshal(want)
		if err != nil {
			return // times out of range
		}
		again := &jetskicortexpb.StreamAgentStateUpdatesResponse{}
		if err := decode(text, again); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if plain := withoutUnknown(t, text); !proto.Equal(again, plain) {
			t.Fatalf("%s: decoded as %v, want %v", text, again, plain)
		}
	})
}

// withoutUnknown reads what protojson wrote, which has no unknown fields.
func withoutUnknown(t *testing.T, text []byte) proto.Message {
	m := &jetskicortexpb.StreamAgentStateUpdatesResponse{}
	if err := protojson.Unmarshal(text, m); err != nil {
		t.Skip(err)
	}
	return m
}

// TestDecodeBoundsParts has answers that would take a hundred times their size as messages.
func TestDecodeBoundsParts(t *testing.T) {
	const limit = 1000
	many := func(part string, count int) string { return strings.TrimSuffix(strings.Repeat(part+",", count), ",") }
	for name, text := range map[string]string{
		"steps":                      `{"trajectory":{"steps":[` + many(`{}`, limit) + `]}}`,
		"texts":                      `{"trajectory":{"steps":[{"listDirectory":{"children":[` + many(`""`, limit) + `]}}]}}`,
		"one member again and again": `{` + many(`"trajectory":{}`, limit+1) + `}`,
	} {
		if err := decodeParts([]byte(text), &languageserverpb.GetCascadeTrajectoryResponse{}, limit); err == nil || !strings.Contains(err.Error(), "parts") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	large := `{"trajectory":{"steps":[{"listDirectory":{"children":[` + many(`""`, maxParts) + `]}}]}}`
	if err := decode([]byte(large), &languageserverpb.GetCascadeTrajectoryResponse{}); err == nil || !strings.Contains(err.Error(), "parts") {
		t.Errorf("got %v", err)
	}
	few := `{"trajectory":{"steps":[` + many(`{"status":3}`, 1000) + `]}}`
	answer := &languageserverpb.GetCascadeTrajectoryResponse{}
	if err := decode([]byte(few), answer); err != nil || len(answer.GetTrajectory().GetSteps()) != 1000 {
		t.Errorf("got %d steps, %v", len(answer.GetTrajectory().GetSteps()), err)
	}
}

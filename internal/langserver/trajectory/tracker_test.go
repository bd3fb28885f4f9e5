package trajectory

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"perigee"
	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	geminicoder "perigee/gen/gemini_coder"
)

func observe(t *Tracker, steps ...*geminicoder.Step) []Event {
	return slices.Collect(t.Apply(&Observation{Steps: steps, Total: len(steps), Trajectory: "trajectory", Status: statusRunning}))
}

// TestTrackerFollowsAnyConversation changes a conversation at random, shows all of it or a part,
// stops between any two events and continues with a cursor that was JSON in between. In the end the
// caller knows what the conversation says.
func TestTrackerFollowsAnyConversation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tracker, seen := NewTracker(Cursor{}), newView()
		show := func(o *Observation, stop int) {
			for e := range tracker.Apply(o) {
				seen.take(e)
				if stop--; stop == 0 {
					break
				}
			}
			if stop == 0 {
				cursor, err := encoded(tracker.Cursor())
				if err != nil {
					t.Fatal(err)
				}
				tracker = NewTracker(cursor)
			}
		}
		var steps []*geminicoder.Step
		for _, op := range drawOps(t) {
			steps = op.do(steps)
			stop := rapid.IntRange(0, 4).Draw(t, "stop")
			switch rapid.IntRange(0, 3).Draw(t, "show") {
			case 0: // nothing
			case 1: // the end only
				o := &Observation{Offset: min(tracker.Offset(), len(steps)), Status: statusRunning}
				o.Steps = steps[o.Offset:]
				if tracker.Agrees(o) {
					show(o, stop)
				}
			case 2: // the beginning only
				show(&Observation{Steps: steps[:rapid.IntRange(0, len(steps)).Draw(t, "part")], Total: len(steps)}, stop)
			default:
				show(&Observation{Steps: steps, Total: len(steps)}, stop)
			}
		}
		show(&Observation{Steps: steps, Total: len(steps)}, -1)
		if d := difference(seen, viewOf(steps)); d != "" {
			t.Fatal(d)
		}
		for e := range tracker.Apply(&Observation{Steps: steps, Total: len(steps)}) {
			t.Fatalf("the same steps again gave %+v", e)
		}
	})
}

// A text that grows gives the suffix, a text that is rewritten the whole.
func TestTextDeltas(t *testing.T) {
	tracker := NewTracker(Cursor{})
	var got []Event
	for _, text := range []string{"Hel", "Hello", "Hello", "Help", ""} {
		got = append(got, observe(tracker, planner(stepGenerating, text))...)
	}
	want := []Event{{Kind: KindText, Text: "Hel"}, {Kind: KindText, Text: "lo"}, {Kind: KindTextReplaced, Text: "Help"}, {Kind: KindTextReplaced}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Text is response; modifiedResponse stands in for it. A message to the user is text as well.
func TestWhereTextIs(t *testing.T) {
	modified := planner(stepDone, "")
	modified.GetPlannerResponse().ModifiedResponse = "modified"
	both := planner(stepDone, "plain")
	both.GetPlannerResponse().ModifiedResponse = "modified"
	notify := &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_NOTIFY_USER, Status: stepDone,
		Step: &geminicoder.Step_NotifyUser{NotifyUser: &cortexpb.CortexStepNotifyUser{NotificationContent: "please review"}}}
	got := observe(NewTracker(Cursor{}), modified, both, notify)
	want := []Event{{Kind: KindText, Text: "modified"}, {Kind: KindText, Step: 1, Text: "plain"}, {Kind: KindText, Step: 2, Text: "please review"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Arguments grow while the model writes them: calls come when their step has ended.
func TestCallsAndResults(t *testing.T) {
	p := planner(stepGenerating, "")
	p.GetPlannerResponse().ToolCalls = []*codeiumcommonpb.ChatToolCall{{Id: "c1", Name: "run_command", ArgumentsJson: `{"li`}}
	tracker := NewTracker(Cursor{})
	if got := observe(tracker, p); len(got) != 0 {
		t.Errorf("an incomplete call gave %+v", got)
	}
	p = proto.Clone(p).(*geminicoder.Step)
	p.Status = stepDone
	p.GetPlannerResponse().ToolCalls[0].ArgumentsJson = `{"line":"ls"}`
	c := command(stepDone, "ls")
	if got := observe(tracker, p, c); len(got) != 2 || got[0].Kind != KindCall || got[1].Kind != KindResult || got[1].Step != 1 {
		t.Fatalf("got %+v", got)
	}
	c = proto.Clone(c).(*geminicoder.Step)
	c.GetRunCommand().CombinedOutput = &cortexpb.RunCommandOutput{Full: "a\nb"}
	if got := observe(tracker, p, c); len(got) != 0 {
		t.Errorf("more output gave %+v", got)
	}
}

// Usage is the sum of the steps of the turn, each counted once, and begins anew with each turn.
func TestUsage(t *testing.T) {
	with := func(in, out uint64) *geminicoder.Step {
		s := planner(stepDone, "x")
		s.Metadata.ModelUsage = &codeiumcommonpb.ModelUsageStats{InputTokens: in, OutputTokens: out, ThinkingOutputTokens: 1, CacheReadTokens: 2, CacheWriteTokens: 3}
		return s
	}
	tracker := NewTracker(Cursor{})
	var last Usage
	for _, steps := range [][]*geminicoder.Step{
		{user("a"), with(10, 1)}, {user("a"), with(10, 1), with(20, 2)}, {user("a"), with(10, 1), with(20, 2)}, // the last is a duplicate
	} {
		for _, e := range observe(tracker, steps...) {
			if e.Kind == KindUsage {
				last = e.Usage
			}
		}
	}
	if want := (Usage{Input: 30, Output: 3, Thinking: 2, CacheRead: 4, CacheWrite: 6}); last != want {
		t.Errorf("got %+v, want %+v", last, want)
	}
	for _, e := range observe(tracker, user("a"), with(10, 1), with(20, 2), user("b"), with(5, 1)) {
		if e.Kind == KindUsage {
			last = e.Usage
		}
	}
	if want := (Usage{Input: 5, Output: 1, Thinking: 1, CacheRead: 2, CacheWrite: 3}); last != want {
		t.Errorf("in the second turn got %+v, want %+v", last, want)
	}
}

// Fewer steps than counted are a partial answer, a smaller count is a revert, and so is another
// type at an index.
func TestReverts(t *testing.T) {
	tracker := NewTracker(Cursor{})
	steps := []*geminicoder.Step{user("a"), planner(stepDone, "b"), user("c"), planner(stepDone, "d")}
	observe(tracker, steps...)
	if got := slices.Collect(tracker.Apply(&Observation{Steps: steps[:1], Total: 4})); len(got) != 0 {
		t.Errorf("a partial answer gave %+v", got)
	}
	if got := slices.Collect(tracker.Apply(&Observation{Steps: steps[:1]})); len(got) != 0 {
		t.Errorf("an answer without a count gave %+v", got)
	}
	if got := slices.Collect(tracker.Apply(&Observation{Steps: steps[:2], Total: 2})); len(got) != 1 || got[0] != (Event{Kind: KindTruncated, Step: 2}) {
		t.Errorf("a smaller count gave %+v", got)
	}
	got := observe(tracker, steps[0], command(stepRunning, "ls"))
	if len(got) != 1 || got[0] != (Event{Kind: KindTruncated, Step: 1}) {
		t.Errorf("another type gave %+v", got)
	}
}

// A message in the queue begins no turn until it leaves the queue.
func TestQueuedMessages(t *testing.T) {
	waiting := user("later")
	waiting.GetUserInput().IsQueuedMessage = true
	tracker := NewTracker(Cursor{})
	if got := observe(tracker, waiting); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	for range tracker.Apply(&Observation{Status: statusIdle}) {
		t.Error("a status gave an event")
	}
	if _, over := tracker.Outcome(quietIdle); over {
		t.Error("the turn is over with a message in the queue")
	}
	if got := observe(tracker, user("later")); len(got) != 1 || got[0] != (Event{Kind: KindTurn, Text: "later"}) {
		t.Errorf("got %+v", got)
	}
}

func TestWaiting(t *testing.T) {
	edit := &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_CODE_ACTION, Status: stepWaiting, Step: &geminicoder.Step_CodeAction{
		CodeAction: &cortexpb.CortexStepCodeAction{FilePermissionRequest: &cortexpb.FilePermissionInteractionSpec{AbsolutePathUri: "file:///etc/hosts"}}}}
	ask := &geminicoder.Step{Status: stepWaiting, Step: &geminicoder.Step_AskQuestion{AskQuestion: &cortexpb.CortexStepAskQuestion{
		Questions: []*cortexpb.AskQuestionEntry{{Question: "Which?", Options: []*cortexpb.AskQuestionOption{{Id: "1", Text: "this"}, {Id: "2", Text: "that"}}}}}}}
	named := command(stepWaiting, "ls")
	named.RequestedInteraction = &cortexpb.RequestedInteraction{Interaction: &cortexpb.RequestedInteraction_Permission{}}
	sourced := command(stepWaiting, "rm x")
	sourced.Metadata = &cortexpb.CortexStepMetadata{SourceTrajectoryStepInfo: &cortexpb.SourceTrajectoryStepInfo{TrajectoryId: "other", StepIndex: 7}}
	agent := &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_INVOKE_SUBAGENT, Status: stepRunning, Subtrajectory: &geminicoder.Trajectory{
		TrajectoryId: "sub", Steps: []*geminicoder.Step{user("do it"), command(stepWaiting, "make")}}}
	unknown := &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_WRITE_BLOB, Status: stepWaiting}
	for name, test := range map[string]struct {
		step *geminicoder.Step
		want Waiting
	}{
		"command":         {command(stepWaiting, "ls"), Waiting{Member: "runCommand", Trajectory: "trajectory", Subject: "ls"}},
		"file":            {edit, Waiting{Member: "filePermission", Trajectory: "trajectory", Subject: "file:///etc/hosts"}},
		"question":        {ask, Waiting{Member: "askQuestion", Trajectory: "trajectory", Subject: "Which? (this, that)", question: ask.GetAskQuestion()}},
		"named by step":   {named, Waiting{Member: "permission", Trajectory: "trajectory", Subject: "ls"}},
		"source of step":  {sourced, Waiting{Member: "runCommand", Trajectory: "other", Index: 7, Subject: "rm x"}},
		"of a subagent":   {agent, Waiting{Member: "runCommand", Trajectory: "sub", Index: 1, Subject: "make"}},
		"unknown payload": {unknown, Waiting{Member: "permission", Trajectory: "trajectory", Subject: ""}},
	} {
		t.Run(name, func(t *testing.T) {
			tracker := NewTracker(Cursor{})
			got := observe(tracker, test.step)
			if len(got) != 1 || got[0].Kind != KindWaiting || *got[0].Waiting != test.want {
				t.Fatalf("got %+v, want %+v", got, test.want)
			}
			if again := observe(tracker, test.step); len(again) != 0 {
				t.Errorf("the same step again gave %+v", again)
			}
			if o, over := tracker.Outcome(quietWaiting); !over || o.Reason != ReasonWaiting {
				t.Errorf("outcome %+v, %t", o, over)
			}
		})
	}
	// The step of the planner that waits is not the one to answer.
	tracker := NewTracker(Cursor{})
	if got := observe(tracker, planner(stepWaiting, "")); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	if o, over := tracker.Outcome(quietWaiting); !over || o.Reason != ReasonWaiting {
		t.Errorf("outcome %+v, %t", o, over)
	}
}

func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		details *cortexpb.CortexErrorDetails
		class   perigee.Class
		text    string
		retry   time.Duration
	}{
		"code":     {&cortexpb.CortexErrorDetails{UserErrorMessage: "Too many requests", ErrorCode: 429}, perigee.ClassRateLimited, "Too many requests", 0},
		"rpc code": {&cortexpb.CortexErrorDetails{UserErrorMessage: "gone", ErrorCode: 14}, perigee.ClassUnavailable, "gone", 0},
		"capacity": {&cortexpb.CortexErrorDetails{UserErrorMessage: "Our servers are busy",
			FullError: `HTTP 503: {"error":{"code":503,"message":"No capacity available for model gemini-3-pro on the server","status":"UNAVAILABLE","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"MODEL_CAPACITY_EXHAUSTED"}]}}`},
			perigee.ClassCapacity, "Our servers are busy", 0},
		"quota": {&cortexpb.CortexErrorDetails{ShortError: "RESOURCE_EXHAUSTED (code 429): You have exhausted your capacity on this model. Your quota will reset after 1h2m3s."},
			perigee.ClassExhausted, "RESOURCE_EXHAUSTED (code 429): You have exhausted your capacity on this model. Your quota will reset after 1h2m3s.", time.Hour + 2*time.Minute + 3*time.Second},
		"version": {&cortexpb.CortexErrorDetails{UserErrorMessage: "This version of Antigravity is no longer supported. Please update to receive the latest features!"},
			perigee.ClassIdentity, "This version of Antigravity is no longer supported. Please update to receive the latest features!", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := observe(NewTracker(Cursor{}), failure(test.details))
			if len(got) != 1 || got[0].Kind != KindError {
				t.Fatalf("got %+v", got)
			}
			if e := got[0].Error; e.Class != test.class || e.Message != test.text || e.Retry != test.retry {
				t.Errorf("got class %s, message %q, retry %v", e.Class, e.Message, e.Retry)
			}
		})
	}
	benign := failure(&cortexpb.CortexErrorDetails{ShortError: "x", IsBenign: true})
	tool := command(stepError, "false")
	tool.Error = &cortexpb.CortexErrorDetails{ShortError: "exit status 1"}
	got := observe(NewTracker(Cursor{}), benign, tool)
	if len(got) != 1 || got[0].Kind != KindResult || got[0].Step != 1 {
		t.Errorf("errors that are none of the turn gave %+v", got)
	}
	broken := planner(stepError, "half")
	broken.Error = &cortexpb.CortexErrorDetails{FullError: "stream error"}
	if got := observe(NewTracker(Cursor{}), broken); len(got) != 2 || got[1].Kind != KindError || got[1].Error.Message != "stream error" {
		t.Errorf("an error of the planner gave %+v", got)
	}
}

// A cursor stays small: it has no texts and at most maxMarks steps that have ended.
func TestCursorsAreSmall(t *testing.T) {
	tracker := NewTracker(Cursor{})
	steps := []*geminicoder.Step{user("go")}
	for range 500 {
		s := planner(stepDone, strings.Repeat("text ", 1000))
		s.Metadata.ModelUsage = &codeiumcommonpb.ModelUsageStats{InputTokens: 10}
		steps = append(steps, s, command(stepDone, "ls"))
	}
	var usage Usage
	for _, e := range observe(tracker, steps...) {
		if e.Kind == KindUsage {
			usage = e.Usage
		}
	}
	c, err := encoded(tracker.Cursor())
	if err != nil || len(c.Marks) > maxMarks || c.Size() != len(steps) {
		t.Fatalf("%d marks of %d steps, %v", len(c.Marks), c.Size(), err)
	}
	if usage.Input != 5000 || c.usage().Input != 5000 {
		t.Errorf("usage %d, and %d with the cursor", usage.Input, c.usage().Input)
	}
	if got := observe(NewTracker(c), steps...); len(got) != 0 {
		t.Errorf("%d events again", len(got))
	}
}

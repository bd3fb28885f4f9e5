package trajectory

import (
	"errors"
	"math/rand/v2"
	"testing"

	"perigee"
	cortexpb "perigee/gen/exa/cortex_pb"
	geminicoder "perigee/gen/gemini_coder"
)

func TestATurnHasTheTextAsItIsNow(t *testing.T) {
	var turn Turn
	for _, e := range []Event{
		{Kind: KindTurn, Step: 0, Text: "before"}, {Kind: KindText, Step: 1, Text: "of an earlier turn"},
		{Kind: KindTurn, Step: 4, Text: "hello"},
		{Kind: KindThinking, Step: 5, Text: "hm"}, {Kind: KindText, Step: 5, Text: "Hel"}, {Kind: KindText, Step: 5, Text: "lo."},
		{Kind: KindText, Step: 7, Text: "wrong"}, {Kind: KindTextReplaced, Step: 7, Text: "right"},
		{Kind: KindWaiting, Step: 8, Waiting: &Waiting{Member: "runCommand"}}, {Kind: KindResult, Step: 8},
		{Kind: KindText, Step: 9, Text: "gone"}, {Kind: KindWaiting, Step: 10, Waiting: &Waiting{Member: "mcp"}}, {Kind: KindTruncated, Step: 9},
		{Kind: KindUsage, Step: 9, Usage: Usage{Input: 1, Output: 2, Thinking: 5, CacheRead: 10, CacheWrite: 20}},
	} {
		turn.Take(e)
	}
	if got := turn.Text(); got != "Hello.\n\nright" || turn.Steps() != 4 || len(turn.Waiting) != 0 || turn.Read != 22 || turn.At(5).Thinking != "hm" {
		t.Errorf("text %q, %d steps, waiting %+v, read %d", got, turn.Steps(), turn.Waiting, turn.Read)
	}
	if got, want := *turn.Usage.Tokens(), (perigee.Usage{Input: 31, Cached: 10, Output: 5, Thinking: 5}); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
}

// A decision has the member that the step asks for, for this once.
func TestDecisions(t *testing.T) {
	for member, get := range map[string]func(*cortexpb.CascadeUserInteraction) bool{
		"runCommand":       func(i *cortexpb.CascadeUserInteraction) bool { return i.GetRunCommand().GetConfirm() },
		"filePermission":   func(i *cortexpb.CascadeUserInteraction) bool { return i.GetFilePermission().GetAllow() },
		"mcp":              func(i *cortexpb.CascadeUserInteraction) bool { return i.GetMcp().GetConfirm() },
		"readUrlContent":   func(i *cortexpb.CascadeUserInteraction) bool { return i.GetReadUrlContent().GetConfirm() },
		"openBrowserUrl":   func(i *cortexpb.CascadeUserInteraction) bool { return i.GetOpenBrowserUrl().GetConfirm() },
		"sendCommandInput": func(i *cortexpb.CascadeUserInteraction) bool { return i.GetSendCommandInput().GetConfirm() },
		"permission":       func(i *cortexpb.CascadeUserInteraction) bool { return i.GetPermission().GetAllow() },
		"elicitation":      func(i *cortexpb.CascadeUserInteraction) bool { return i.GetElicitation().GetAction() == "accept" },
	} {
		w := &Waiting{Member: member, Trajectory: "t", Index: 7, Subject: "subject"}
		for _, allow := range []bool{true, false} {
			i, err := w.Decide(allow, "")
			if err != nil || i.GetTrajectoryId() != "t" || i.GetStepIndex() != 7 || get(i) != allow || memberName(i) != member {
				t.Errorf("%s, %t: %v, %v", member, allow, i, err)
			}
		}
	}
	once := cortexpb.PermissionScope_PERMISSION_SCOPE_ONCE
	file, _ := (&Waiting{Member: "filePermission", Subject: "file:///a"}).Decide(true, "")
	permission, _ := (&Waiting{Member: "permission"}).Decide(true, "")
	if file.GetFilePermission().GetScope() != once || permission.GetPermission().GetScope() != once || file.GetFilePermission().GetAbsolutePathUri() != "file:///a" {
		t.Errorf("got %v and %v", file, permission)
	}
	if _, err := (&Waiting{Member: "deploy"}).Decide(true, ""); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassUnimplemented {
		t.Errorf("an unknown member: %v", err)
	}
	if _, err := (&Waiting{Member: "elicitation"}).Decide(true, "no JSON"); err == nil {
		t.Error("an elicitation was answered with a text")
	}
}

func memberName(i *cortexpb.CascadeUserInteraction) string {
	m := i.ProtoReflect()
	return m.WhichOneof(m.Descriptor().Oneofs().ByName("interaction")).JSONName()
}

// An answer to a question repeats the question and names an option, or is in own words.
func TestAnswersToQuestions(t *testing.T) {
	colour := &cortexpb.AskQuestionEntry{Question: "Which colour?", Options: []*cortexpb.AskQuestionOption{{Id: "a", Text: "Red"}, {Text: "Green"}}}
	size := &cortexpb.AskQuestionEntry{Question: "How big?"}
	one := &Waiting{Member: "askQuestion", question: &cortexpb.CortexStepAskQuestion{Questions: []*cortexpb.AskQuestionEntry{colour}}}
	two := &Waiting{Member: "askQuestion", question: &cortexpb.CortexStepAskQuestion{Questions: []*cortexpb.AskQuestionEntry{colour, size}}}
	for _, test := range []struct {
		w        *Waiting
		text, id string
		own      []string
	}{
		{one, "red", "a", []string{""}},
		{one, "1", "a", []string{""}},
		{one, "a", "a", []string{""}},
		{one, "Green", "2", []string{""}},
		{one, "blue\nof course", "", []string{"blue\nof course"}},
		{two, "red\nvery big", "a", []string{"", "very big"}},
		{two, "blue", "", []string{"blue", ""}},
	} {
		i, err := test.w.Decide(true, test.text)
		if err != nil {
			t.Fatal(err)
		}
		list := i.GetAskQuestion().GetResponses()
		if len(list) != len(test.own) || list[0].GetQuestion() != "Which colour?" || len(list[0].GetOptions()) != 2 {
			t.Fatalf("%q: %v", test.text, list)
		}
		if ids := list[0].GetSelectedOptionIds(); test.id != "" && (len(ids) != 1 || ids[0] != test.id) || test.id == "" && len(ids) > 0 {
			t.Errorf("%q chose %q", test.text, ids)
		}
		for at, own := range test.own {
			if list[at].GetWriteInResponse() != own || list[at].GetSkipped() != (own == "" && len(list[at].GetSelectedOptionIds()) == 0) {
				t.Errorf("%q: entry %d is %v", test.text, at, list[at])
			}
		}
	}
	if _, err := one.Decide(true, " "); perigee.AsError(err) == nil || perigee.AsError(err).Class != perigee.ClassInvalid {
		t.Errorf("an empty answer: %v", err)
	}
	if i, err := one.Decide(false, ""); err != nil || !i.GetAskQuestion().GetCancelled() {
		t.Errorf("a refused question: %v, %v", i, err)
	}
	if colour.GetSelectedOptionIds() != nil {
		t.Error("the step was changed")
	}
}

func TestWaitingInOneLine(t *testing.T) {
	for want, w := range map[string]Waiting{
		"permission to run the command make all": {Member: "runCommand", Subject: "make\n  all"},
		"an answer to the question: Which?":      {Member: "askQuestion", Subject: "Which?"},
		"permission (deploy) it":                 {Member: "deploy", Subject: "it"},
	} {
		if got := w.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// What is there already is not a part of the next turn.
func TestASnapshotEndsBeforeTheNextTurn(t *testing.T) {
	c := newConversation()
	first := user("one")
	first.GetUserInput().UserConfig = &cortexpb.CascadeConfig{PlannerConfig: &cortexpb.CascadePlannerConfig{PlanModel: 1018}}
	c.steps = []*geminicoder.Step{first, planner(stepDone, "first"), checkpoint()}
	for seed := range uint64(20) { // answers in parts
		s := &source{c: c, rough: rand.New(rand.NewPCG(seed, 1))}
		got, err := Read(t.Context(), s, "id")
		if err != nil {
			if !errors.Is(err, errBroken) {
				t.Fatal(err)
			}
			continue
		}
		if got.Turn.Text() != "first" || got.Running || got.Model != 1018 || got.Cursor.Size() != 3 || got.Cursor.Over {
			t.Fatalf("got %+v", got)
		}
	}
	got, err := Read(t.Context(), &source{c: c}, "id")
	if err != nil {
		t.Fatal(err)
	}
	c.change(func() {
		c.steps, c.status = append(c.steps, user("two"), planner(stepGenerating, "sec")), statusRunning
	})
	if now, err := Read(t.Context(), &source{c: c}, "id"); err != nil || !now.Running || now.Turn.Text() != "sec" || now.Turn.Steps() != 1 {
		t.Errorf("while it runs: %+v, %v", now, err)
	}
	c.change(func() { c.steps, c.status = append(c.steps[:4:4], planner(stepDone, "second")), statusIdle })
	var turn Turn
	got.Cursor.Over = true
	for event, err := range followFrom(t.Context(), &source{c: c}, "id", &got.Cursor) {
		if err != nil {
			t.Fatal(err)
		}
		turn.Take(event)
	}
	if turn.Text() != "second" || turn.First != 3 {
		t.Errorf("the next turn is %+v", turn)
	}
	c.change(func() { c.steps = append(c.steps, command(stepWaiting, "ls")) })
	if now, err := Read(t.Context(), &source{c: c}, "id"); err != nil || !now.Running || len(now.Turn.Waiting) != 1 {
		t.Errorf("while it waits: %+v, %v", now, err)
	}
}

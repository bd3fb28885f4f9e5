package trajectory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
	geminicoder "perigee/gen/gemini_coder"
)

const (
	statusIdle    = cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE
	statusRunning = cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_RUNNING

	stepDone       = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE
	stepGenerating = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_GENERATING
	stepRunning    = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_RUNNING
	stepWaiting    = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_WAITING
	stepError      = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_ERROR
	stepCanceled   = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_CANCELED

	stopPattern = codeiumcommonpb.StopReason_STOP_REASON_STOP_PATTERN
)

func user(text string) *geminicoder.Step {
	return &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_USER_INPUT, Status: stepDone, Step: &geminicoder.Step_UserInput{
		UserInput: &cortexpb.CortexStepUserInput{Items: []*codeiumcommonpb.TextOrScopeItem{{Chunk: &codeiumcommonpb.TextOrScopeItem_Text{Text: text}}}}}}
}

func planner(status cortexpb.CortexStepStatus, text string) *geminicoder.Step {
	p := &cortexpb.CortexStepPlannerResponse{Response: text}
	if status == stepDone {
		p.StopReason = stopPattern
	}
	return &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_PLANNER_RESPONSE, Status: status, Metadata: &cortexpb.CortexStepMetadata{},
		Step: &geminicoder.Step_PlannerResponse{PlannerResponse: p}}
}

func command(status cortexpb.CortexStepStatus, line string) *geminicoder.Step {
	return &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_RUN_COMMAND, Status: status,
		Step: &geminicoder.Step_RunCommand{RunCommand: &cortexpb.CortexStepRunCommand{ProposedCommandLine: line}}}
}

func failure(details *cortexpb.CortexErrorDetails) *geminicoder.Step {
	return &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_ERROR_MESSAGE, Status: stepDone,
		Step: &geminicoder.Step_ErrorMessage{ErrorMessage: &cortexpb.CortexStepErrorMessage{Error: details, ShouldShowUser: true}}}
}

func checkpoint() *geminicoder.Step {
	return &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_CHECKPOINT, Status: stepDone,
		Step: &geminicoder.Step_Checkpoint{Checkpoint: &cortexpb.CortexStepCheckpoint{ConversationTitle: "title"}}}
}

// A view is what a caller knows of a conversation, or what it really is.
type view struct {
	Texts, Thinking map[int]string
	Calls           map[int]int
	Results         map[int]bool
	Turns           map[int]string
	Usage           Usage
}

func newView() view {
	return view{Texts: map[int]string{}, Thinking: map[int]string{}, Calls: map[int]int{}, Results: map[int]bool{}, Turns: map[int]string{}}
}

// take applies an event, as a caller would.
func (v *view) take(e Event) {
	switch e.Kind {
	case KindTurn:
		v.Turns[e.Step], v.Usage = e.Text, Usage{}
	case KindText:
		v.Texts[e.Step] += e.Text
	case KindTextReplaced:
		v.Texts[e.Step] = e.Text
	case KindThinking:
		v.Thinking[e.Step] += e.Text
	case KindThinkingReplaced:
		v.Thinking[e.Step] = e.Text
	case KindCall:
		v.Calls[e.Step]++
	case KindResult:
		v.Results[e.Step] = true
	case KindUsage:
		v.Usage = e.Usage
	case KindTruncated:
		gone := func(step int) bool { return step >= e.Step }
		maps.DeleteFunc(v.Texts, func(step int, _ string) bool { return gone(step) })
		maps.DeleteFunc(v.Thinking, func(step int, _ string) bool { return gone(step) })
		maps.DeleteFunc(v.Calls, func(step, _ int) bool { return gone(step) })
		maps.DeleteFunc(v.Results, func(step int, _ bool) bool { return gone(step) })
		maps.DeleteFunc(v.Turns, func(step int, _ string) bool { return gone(step) })
	}
}

// viewOf is what a conversation says, read without a Tracker.
func viewOf(steps []*geminicoder.Step) view {
	v := newView()
	for i, s := range steps {
		if in := s.GetUserInput(); in != nil {
			v.Turns[i], v.Usage = in.GetItems()[0].GetText(), Usage{}
		}
		if p := s.GetPlannerResponse(); p != nil {
			if p.Response != "" {
				v.Texts[i] = p.Response
			}
			if p.Thinking != "" {
				v.Thinking[i] = p.Thinking
			}
			if n := len(p.ToolCalls); n > 0 && s.Status == stepDone {
				v.Calls[i] = n
			}
		}
		if c := s.GetRunCommand(); c != nil && s.Status == stepDone {
			v.Results[i] = true
		}
		u := s.GetMetadata().GetModelUsage()
		v.Usage = v.Usage.Plus(Usage{Input: u.GetInputTokens(), Output: u.GetOutputTokens(), Thinking: u.GetThinkingOutputTokens()})
	}
	return v
}

// difference compares views; a text that was emptied is as good as none.
func difference(got, want view) string {
	for _, m := range []map[int]string{got.Texts, got.Thinking} {
		maps.DeleteFunc(m, func(_ int, text string) bool { return text == "" })
	}
	if reflect.DeepEqual(got, want) {
		return ""
	}
	return fmt.Sprintf("got  %+v\nwant %+v", got, want)
}

// A conversation changes as the language server changes one.
type conversation struct {
	mu       sync.Mutex
	steps    []*geminicoder.Step
	status   cortexpb.CascadeRunStatus
	executor *cortexpb.ExecutorMetadata
	changes  chan struct{} // closed at the next change
}

func newConversation() *conversation {
	return &conversation{status: statusIdle, changes: make(chan struct{})}
}

// change runs f, which replaces steps instead of changing them, and tells the streams.
func (c *conversation) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changes)
	c.changes = make(chan struct{})
}

func (c *conversation) snapshot() ([]*geminicoder.Step, cortexpb.CascadeRunStatus, *cortexpb.ExecutorMetadata, chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.steps), c.status, c.executor, c.changes
}

// An op is a random change of a conversation.
type op struct {
	Kind  string
	N     int
	Text  string
	Pause int // milliseconds before it
}

func drawOps(t *rapid.T) []op {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) op {
		return op{
			Kind: rapid.SampledFrom([]string{"user", "planner", "grow", "grow", "grow", "think", "rewrite", "calls", "finish", "finish",
				"command", "checkpoint", "revert", "regrow", "usage"}).Draw(t, "kind"),
			N: rapid.IntRange(0, 30).Draw(t, "n"), Text: rapid.StringN(1, 8, -1).Draw(t, "text"), Pause: rapid.IntRange(0, 700).Draw(t, "pause"),
		}
	}), 1, 40).Draw(t, "ops")
}

// do applies an op to steps. Steps are replaced, never changed, because readers may hold them.
func (o op) do(steps []*geminicoder.Step) []*geminicoder.Step {
	last := func(f func(s *geminicoder.Step, p *cortexpb.CortexStepPlannerResponse)) {
		if n := len(steps); n > 0 && steps[n-1].Status != stepDone {
			s := proto.Clone(steps[n-1]).(*geminicoder.Step)
			p := s.GetPlannerResponse()
			if p == nil {
				p = &cortexpb.CortexStepPlannerResponse{}
			}
			f(s, p)
			steps = slices.Concat(steps[:n-1], []*geminicoder.Step{s})
		}
	}
	finish := func(s *geminicoder.Step, p *cortexpb.CortexStepPlannerResponse) {
		s.Status, p.StopReason = stepDone, stopPattern
		if c := s.GetRunCommand(); c != nil {
			c.CombinedOutput = &cortexpb.RunCommandOutput{Full: o.Text}
		}
	}
	add := func(s *geminicoder.Step) {
		last(finish) // the server begins a step when the one before has ended
		steps = append(slices.Clone(steps), s)
	}
	switch o.Kind {
	case "user":
		add(user(o.Text))
	case "planner":
		add(planner(stepGenerating, o.Text))
	case "command":
		add(command(stepRunning, o.Text))
	case "checkpoint":
		add(checkpoint())
	case "grow":
		last(func(_ *geminicoder.Step, p *cortexpb.CortexStepPlannerResponse) { p.Response += o.Text })
	case "think":
		last(func(_ *geminicoder.Step, p *cortexpb.CortexStepPlannerResponse) { p.Thinking += o.Text })
	case "rewrite":
		last(func(_ *geminicoder.Step, p *cortexpb.CortexStepPlannerResponse) { p.Response, p.Thinking = o.Text, "" })
	case "calls":
		last(func(_ *geminicoder.Step, p *cortexpb.CortexStepPlannerResponse) {
			args, _ := json.Marshal(map[string]string{"a": o.Text})
			p.ToolCalls = append(p.ToolCalls, &codeiumcommonpb.ChatToolCall{Id: fmt.Sprint("c", o.N), Name: "tool", ArgumentsJson: string(args)})
		})
	case "usage":
		last(func(s *geminicoder.Step, p *cortexpb.CortexStepPlannerResponse) {
			if s.Metadata == nil {
				s.Metadata = &cortexpb.CortexStepMetadata{}
			}
			s.Metadata.ModelUsage = &codeiumcommonpb.ModelUsageStats{InputTokens: uint64(o.N), OutputTokens: uint64(len(o.Text)), ThinkingOutputTokens: 1}
		})
	case "finish":
		last(finish)
	case "revert", "regrow":
		if len(steps) > 1 {
			steps = slices.Clone(steps[:1+o.N%(len(steps)-1)])
		}
		if o.Kind == "regrow" { // as many steps as before, or more, of other content
			for i := range 1 + o.N%4 {
				steps = op{Kind: []string{"user", "planner", "command"}[(o.N+i)%3], Text: o.Text + "!", N: o.N}.do(steps)
			}
		}
	}
	return steps
}

// A source shows a conversation as a language server does, with every trouble that a network adds.
type source struct {
	c *conversation
	// rough makes it fail, answer in parts and end streams; nil means it does not.
	mu     sync.Mutex
	rough  *rand.Rand
	stream bool
}

func (s *source) chance(of int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rough != nil && s.rough.IntN(of) == 0
}

func (s *source) part(steps []*geminicoder.Step) []*geminicoder.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rough != nil && len(steps) > 1 && s.rough.IntN(3) == 0 {
		return steps[:1+s.rough.IntN(len(steps)-1)]
	}
	return steps
}

var errBroken = errors.New("connection reset")

func (s *source) Trajectory(context.Context, string) (*languageserverpb.GetCascadeTrajectoryResponse, error) {
	if s.chance(5) {
		return nil, errBroken
	}
	steps, status, executor, _ := s.c.snapshot()
	t := &geminicoder.Trajectory{TrajectoryId: "trajectory", Steps: s.part(steps)}
	if executor != nil {
		t.ExecutorMetadatas = []*cortexpb.ExecutorMetadata{executor}
	}
	return &languageserverpb.GetCascadeTrajectoryResponse{Trajectory: t, Status: status, NumTotalSteps: uint32(len(steps))}, nil
}

func (s *source) Steps(_ context.Context, _ string, offset int) ([]*geminicoder.Step, error) {
	if s.chance(5) {
		return nil, errBroken
	}
	steps, _, _, _ := s.c.snapshot()
	return s.part(steps[min(offset, len(steps)):]), nil
}

// Updates yields sparse updates. With trouble, some are dropped, repeated, or late.
func (s *source) Updates(ctx context.Context, _ string) iter.Seq2[*jetskicortexpb.AgentStateUpdate, error] {
	return func(yield func(*jetskicortexpb.AgentStateUpdate, error) bool) {
		if !s.stream {
			yield(nil, errors.ErrUnsupported)
			return
		}
		var late *jetskicortexpb.AgentStateUpdate
		for {
			steps, status, executor, changed := s.c.snapshot()
			u := &jetskicortexpb.AgentStateUpdate{Status: status, ExecutorMetadata: executor, MainTrajectoryUpdate: &jetskicortexpb.TrajectoryUpdate{
				StepsUpdate: &jetskicortexpb.StepsUpdate{TotalLength: uint32(len(steps))}}}
			list := []*jetskicortexpb.AgentStateUpdate{u}
			if late != nil {
				list, late = append(list, late), nil
			}
			if s.chance(4) {
				list, late = nil, u
			}
			for _, u := range list {
				if !yield(u, nil) {
					return
				}
			}
			if s.chance(6) {
				yield(nil, errBroken)
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

// encoded sends a cursor through JSON.
func encoded(c Cursor) (back Cursor, err error) {
	data, err := json.Marshal(c)
	if err != nil {
		return back, err
	}
	return back, json.Unmarshal(data, &back)
}

// pause sleeps, in the clock of the bubble where there is one.
func pause(ms int) { time.Sleep(time.Duration(ms) * time.Millisecond) }

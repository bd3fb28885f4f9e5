package trajectory

import (
	"iter"
	"slices"
	"time"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// An Observation is the state of a conversation in a source at one moment.
type Observation struct {
	Time       time.Time // of the reading, for errors that name a time
	Trajectory string    // its ID; empty if unknown
	Offset     int       // the index of the first of Steps
	Steps      []*geminicoder.Step
	Total      int                          // number of steps; 0 if unknown
	Status     cortexpb.CascadeRunStatus    // 0 if unknown
	Executors  []*cortexpb.ExecutorMetadata // the last one counts; nil if unknown
	Children   bool                         // subagents or background work are running
}

// A Tracker turns observations into events. It is not safe for concurrent use.
type Tracker struct {
	cursor       Cursor
	trajectory   string
	status       cortexpb.CascadeRunStatus
	executor     *cortexpb.ExecutorMetadata
	children     bool
	execution    string // ID of the execution that made the last step of the turn which names one
	active       bool   // the turn has started, and its end was not reported
	changed      bool   // the steps, by the last observation
	stateChanged bool   // the status, by the last observation
}

// NewTracker returns a tracker that continues at a cursor.
func NewTracker(from Cursor) *Tracker {
	return &Tracker{cursor: from.clone(), active: !from.Over && len(from.Marks) > 0}
}

// Cursor returns where the next event comes from. It may be called between two events of Apply.
func (t *Tracker) Cursor() Cursor { return t.cursor.clone() }

// Offset returns the index from which steps have to be read. The first of them is final already:
// it shows whether steps were replaced since.
func (t *Tracker) Offset() int {
	for i := range t.cursor.Marks {
		if !t.cursor.Marks[i].final() {
			return max(t.cursor.First+i-1, 0)
		}
	}
	return max(t.cursor.Size()-1, 0)
}

// Agrees reports whether an observation contains all known final steps unchanged and reaches as
// far as the cursor. Otherwise steps before it may have changed as well.
func (t *Tracker) Agrees(o *Observation) bool {
	if o.Offset+len(o.Steps) < t.cursor.Size() {
		return false
	}
	for i, step := range o.Steps {
		at := o.Offset + i - t.cursor.First
		if at >= 0 && at < len(t.cursor.Marks) && t.cursor.Marks[at].final() && t.cursor.Marks[at].Hash != hashStep(step) {
			return false
		}
	}
	return true
}

// Apply yields the changes of an observation since the last one. If the caller stops, the
// remaining changes come with the next observation that has them. Observations have to come in the
// order in which they were made. Steps that leave a gap are ignored.
func (t *Tracker) Apply(o *Observation) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		t.changed, t.stateChanged = false, false
		a := application{t: t, o: o, yield: yield}
		a.state()
		if total := max(o.Total, o.Offset+len(o.Steps)); o.Total > 0 && total < t.cursor.Size() && !a.truncate(total) {
			return
		}
		for i, step := range o.Steps {
			if at := o.Offset + i; at >= t.cursor.First && at <= t.cursor.Size() && !a.step(at, step) {
				return
			}
			t.cursor.prune()
			if t.overflows() {
				return
			}
		}
		if !a.usage(max(t.cursor.Size()-1, 0)) {
			return
		}
		t.cursor.prune()
	}
}

// overflows reports whether there are more marks than a conversation can need: final steps are
// pruned.
func (t *Tracker) overflows() bool { return len(t.cursor.Marks) > maxOpen }

// An application is one call of Apply. Each of its methods returns false when the caller has
// stopped.
type application struct {
	t     *Tracker
	o     *Observation
	yield func(Event) bool
}

// state applies the fields that do not concern a single step.
func (a *application) state() {
	t, o := a.t, a.o
	if o.Trajectory != "" {
		t.trajectory = o.Trajectory
	}
	if o.Status != 0 && o.Status != t.status {
		t.status = o.Status
		t.stateChanged = true
	}
	if t.status > cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE {
		a.begin()
	}
	if n := len(o.Executors); n > 0 {
		t.executor = o.Executors[n-1]
	}
	if t.children != o.Children {
		t.children, t.stateChanged = o.Children, true
	}
}

// begin records activity after the last turn that was reported as over.
func (a *application) begin() { a.t.active, a.t.cursor.Over = true, false }

func (a *application) emit(e Event) bool {
	a.t.changed = true
	return a.yield(e)
}

// truncate drops the marks of the steps from an index on.
func (a *application) truncate(at int) bool {
	a.begin()
	a.t.cursor.cut(at)
	return a.emit(Event{Kind: KindTruncated, Step: at})
}

// usage reports the usage of the turn if it has changed.
func (a *application) usage(at int) bool {
	c := &a.t.cursor
	before := c.Reported
	c.Reported = c.usage()
	return c.Reported == before || a.emit(Event{Kind: KindUsage, Step: at, Usage: c.Reported})
}

// step reports the changes of one step.
func (a *application) step(at int, s *geminicoder.Step) bool {
	c := &a.t.cursor
	kind, hash := typeOf(s), hashStep(s)
	if id := s.GetMetadata().GetExecutionId(); id != "" && at >= c.Turn {
		a.t.execution = id
	}
	if at < c.Size() {
		m := &c.Marks[at-c.First]
		if m.Hash == hash && hash != 0 {
			return true
		}
		if a.replaced(m, kind, s) && !a.truncate(at) {
			return false
		}
	}
	if at == c.Size() {
		c.Marks = append(c.Marks, Mark{Type: kind})
		a.t.changed = true
	}
	a.begin()
	m := &c.Marks[at-c.First]
	m.Hash = 0
	if !a.user(at, m, s) || !a.texts(at, m, s) || !a.calls(at, m, s) || !a.account(at, m, s) || !a.problems(at, m, s) {
		return false
	}
	m.Stop = s.GetPlannerResponse().GetStopReason()
	if m.Status != s.GetStatus() || hash != 0 {
		a.t.changed = true
	}
	m.Status, m.Hash = s.GetStatus(), hash
	return true
}

// replaced reports whether a step is another one than the mark is about.
func (a *application) replaced(m *Mark, kind cortexpb.CortexStepType, s *geminicoder.Step) bool {
	ended := (m.final() || m.Ended || len(m.Calls) > 0) && !m.Started
	if m.Type != kind || ended && !terminal(s.GetStatus()) {
		return true
	}
	if m.Started && m.Text != prefixOf(UserText(s.GetUserInput())) {
		return true
	}
	calls := s.GetPlannerResponse().GetToolCalls()
	return len(calls) < len(m.Calls) || !slices.EqualFunc(m.Calls, calls[:len(m.Calls)],
		func(hash uint64, c *codeiumcommonpb.ChatToolCall) bool { return hash == hashCall(c) })
}

// user begins a turn. A message in the queue begins it when it leaves the queue.
func (a *application) user(at int, m *Mark, s *geminicoder.Step) bool {
	if m.Type != cortexpb.CortexStepType_CORTEX_STEP_TYPE_USER_INPUT || m.Started || queued(s) {
		return true
	}
	text := UserText(s.GetUserInput())
	m.Started, m.Text = true, prefixOf(text)
	a.t.cursor.Turn, a.t.cursor.Spent, a.t.cursor.Reported = at, Usage{}, Usage{}
	a.t.execution = s.GetMetadata().GetExecutionId()
	return a.emit(Event{Kind: KindTurn, Step: at, Text: text})
}

func queued(s *geminicoder.Step) bool {
	return s.GetUserInput().GetIsQueuedMessage() || s.GetStatus() == cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_QUEUED
}

// texts reports thinking and text.
func (a *application) texts(at int, m *Mark, s *geminicoder.Step) bool {
	if m.Started {
		return true
	}
	return a.text(at, &m.Thinking, s.GetPlannerResponse().GetThinking(), KindThinking) && a.text(at, &m.Text, textOf(s), KindText)
}

// text reports a text that has grown or was rewritten. For a rewritten text the kind is the one
// after kind.
func (a *application) text(at int, known *prefix, text string, kind Kind) bool {
	before := *known
	if *known = prefixOf(text); *known == before {
		return true
	}
	if before.of(text) {
		return a.emit(Event{Kind: kind, Step: at, Text: text[before.Length:]})
	}
	return a.emit(Event{Kind: kind + 1, Step: at, Text: text})
}

// calls reports tool calls once they are complete: arguments grow while the model writes them.
func (a *application) calls(at int, m *Mark, s *geminicoder.Step) bool {
	if !terminal(s.GetStatus()) {
		return true
	}
	calls := s.GetPlannerResponse().GetToolCalls()
	for _, call := range calls[min(len(m.Calls), len(calls)):] {
		m.Calls = append(m.Calls, hashCall(call))
		if !a.emit(Event{Kind: KindCall, Step: at}) {
			return false
		}
	}
	return true
}

// account reports tokens, and the end of a step that is not a text.
func (a *application) account(at int, m *Mark, s *geminicoder.Step) bool {
	if m.Usage = usageOf(s); !a.usage(at) {
		return false
	}
	if m.Ended || !terminal(s.GetStatus()) || internalStep(m.Type) {
		return true
	}
	switch m.Type {
	case cortexpb.CortexStepType_CORTEX_STEP_TYPE_USER_INPUT, cortexpb.CortexStepType_CORTEX_STEP_TYPE_PLANNER_RESPONSE,
		cortexpb.CortexStepType_CORTEX_STEP_TYPE_ERROR_MESSAGE, cortexpb.CortexStepType_CORTEX_STEP_TYPE_NOTIFY_USER:
		return true
	}
	m.Ended = true
	return a.emit(Event{Kind: KindResult, Step: at})
}

// problems reports errors, and the inputs that the step waits for.
func (a *application) problems(at int, m *Mark, s *geminicoder.Step) bool {
	if e := failureOf(s); e == nil {
		m.Error = 0
	} else if hash := hashError(e); hash != m.Error {
		m.Error = hash
		if !a.emit(Event{Kind: KindError, Step: at, Error: classify(e, a.o.Time)}) {
			return false
		}
	}
	list := waitingIn(s, a.t.trajectory, at, 0)
	m.Waiting = slices.DeleteFunc(m.Waiting, func(hash uint64) bool {
		return !slices.ContainsFunc(list, func(w *Waiting) bool { return w.hash() == hash })
	})
	for _, w := range list {
		if slices.Contains(m.Waiting, w.hash()) {
			continue
		}
		m.Waiting = append(m.Waiting, w.hash())
		if !a.emit(Event{Kind: KindWaiting, Step: at, Waiting: w}) {
			return false
		}
	}
	return true
}

package standin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	geminicoder "perigee/gen/gemini_coder"
)

const (
	idle      = cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE
	running   = cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_RUNNING
	canceling = cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_CANCELING
)

// conversations are the cascades of the process.
type conversations struct {
	p     *process
	dirty chan struct{} // has a value when there are summaries to push

	mu       sync.Mutex // guards the rest, and the fields of every cascade
	cascades map[string]*cascade
	stored   map[string]*geminicoder.Trajectory // on disk and not loaded
	changed  map[string]time.Time               // when these were changed
	unpushed map[string]bool
}

// A cascade is a conversation.
type cascade struct {
	all        *conversations
	id         string
	trajectory string
	source     cortexpb.CortexTrajectorySource
	kind       cortexpb.CortexTrajectoryType
	workspaces []string // file URIs
	title      string
	notes      *jetskicortexpb.ConversationAnnotations
	created    time.Time
	modified   time.Time
	lastInput  int // index of the last step with a message of the user, or -1

	status     cortexpb.CascadeRunStatus
	steps      []*geminicoder.Step
	generators []*cortexpb.CortexStepGeneratorMetadata
	executors  []*cortexpb.ExecutorMetadata
	contents   []content // as sent to the cloud
	lengths    []int     // the length of contents before each step

	busy        bool // a turn runs or is about to
	cancel      context.CancelFunc
	queue       []message
	waiting     map[int]waitingStep
	subscribers map[string]*subscriber
	sequence    int // of calls of the cloud

	unsaved  int        // index of the first step that is not in the database
	saving   sync.Mutex // guards database
	database *sql.DB    // nil if not open
}

// A waitingStep waits for the user.
type waitingStep struct {
	member string // of CascadeUserInteraction
	answer chan *cortexpb.CascadeUserInteraction
}

func newConversations(p *process) *conversations {
	c := &conversations{p: p, dirty: make(chan struct{}, 1), cascades: map[string]*cascade{}, stored: map[string]*geminicoder.Trajectory{},
		changed: map[string]time.Time{}, unpushed: map[string]bool{}}
	c.readStored()
	return c
}

// pushStored sends the stored conversations to the IDE: there always is the trajectory of the
// user's actions in the editor. Then it pushes summaries of conversations that changed, until the
// session ends.
func (c *conversations) pushStored(ctx context.Context) {
	now := timestamppb.Now()
	summaries := c.summaries()
	summaries[newUUID()] = &jetskicortexpb.CascadeTrajectorySummary{Summary: "implicit trajectory", CreatedTime: now, LastModifiedTime: now, TrajectoryId: newUUID(), Status: idle}
	for id, summary := range summaries {
		c.p.extension.pushSummary(ctx, id, summary)
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.dirty:
			}
			c.mu.Lock()
			changed := slices.Sorted(maps.Keys(c.unpushed))
			clear(c.unpushed)
			c.mu.Unlock()
			summaries := c.summaries()
			for _, id := range changed {
				if summary := summaries[id]; summary != nil {
					c.p.extension.pushSummary(ctx, id, summary)
				}
			}
		}
	}()
}

// errNoCascade returns the error for a conversation that is not loaded.
func errNoCascade(id string) error {
	return fmt.Errorf("run state not found: no cascade %s is loaded", id)
}

// find returns a conversation. Stored ones are loaded by find where the generation does so, else by
// load.
func (c *conversations) find(id string) (*cascade, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.cascades[id]; k != nil {
		return k, nil
	}
	if c.stored[id] == nil || c.p.generation == classic {
		return nil, errNoCascade(id)
	}
	return c.load(id), nil
}

// load takes a stored conversation into memory. Its caller holds the lock and has checked that it
// exists.
func (c *conversations) load(id string) *cascade {
	t := c.stored[id]
	delete(c.stored, id)
	k := c.add(id)
	k.trajectory, k.source, k.kind = t.TrajectoryId, t.Source, t.TrajectoryType
	k.generators, k.executors = t.GeneratorMetadata, t.ExecutorMetadatas
	k.created = t.Metadata.GetCreatedAt().AsTime()
	for _, w := range t.Metadata.GetWorkspaces() {
		k.workspaces = append(k.workspaces, w.WorkspaceFolderAbsoluteUri)
	}
	for i, step := range t.Steps {
		k.steps, k.lengths = append(k.steps, step), append(k.lengths, len(k.contents))
		if !terminal(step.Status) {
			step.Status = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_INTERRUPTED
		}
		switch {
		case step.GetUserInput() != nil:
			k.lastInput = i
			k.contents = append(k.contents, userContent(step.GetUserInput().UserResponse, ""))
		case step.GetPlannerResponse().GetResponse() != "":
			k.contents = append(k.contents, content{Role: "model", Parts: []part{{Text: new(step.GetPlannerResponse().Response)}}})
		case step.GetCheckpoint() != nil:
			k.title = step.GetCheckpoint().ConversationTitle
		}
	}
	return k
}

// add makes an empty conversation. Its caller holds the lock.
func (c *conversations) add(id string) *cascade {
	k := &cascade{all: c, id: id, trajectory: newUUID(), status: idle, created: time.Now(), modified: time.Now(), lastInput: -1,
		notes: &jetskicortexpb.ConversationAnnotations{}, waiting: map[int]waitingStep{}, subscribers: map[string]*subscriber{}}
	c.cascades[id] = k
	return k
}

func terminal(status cortexpb.CortexStepStatus) bool {
	switch status {
	case cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE, cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_INVALID, cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_CLEARED,
		cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_CANCELED, cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_ERROR, cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_INTERRUPTED:
		return true
	}
	return false
}

// remove deletes a conversation from memory and disk.
func (c *conversations) remove(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.cascades[id]
	if k == nil && c.stored[id] == nil {
		return errNoCascade(id)
	}
	if k != nil {
		if k.cancel != nil {
			k.cancel()
		}
		for name := range k.subscribers {
			k.unsubscribe(name, errors.New("the conversation was deleted"))
		}
	}
	delete(c.cascades, id)
	delete(c.stored, id)
	return c.removeFiles(id)
}

// snapshot returns the trajectory with some of its steps. The caller holds the lock and keeps it
// until the message is written, or takes a copy.
func (k *cascade) snapshot(from, to int) *geminicoder.Trajectory {
	t := &geminicoder.Trajectory{TrajectoryId: k.trajectory, CascadeId: k.id, Steps: k.steps[from:to], GeneratorMetadata: k.generators, ExecutorMetadatas: k.executors,
		TrajectoryType: k.kind, Source: k.source, Metadata: &cortexpb.CortexTrajectoryMetadata{CreatedAt: timestamppb.New(k.created)}}
	for _, uri := range k.workspaces {
		t.Metadata.Workspaces = append(t.Metadata.Workspaces, &cortexpb.CortexWorkspaceMetadata{WorkspaceFolderAbsoluteUri: uri})
	}
	return t
}

// summaries returns the entries of the list of conversations.
func (c *conversations) summaries() map[string]*jetskicortexpb.CascadeTrajectorySummary {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]*jetskicortexpb.CascadeTrajectorySummary{}
	for id, k := range c.cascades {
		s := &jetskicortexpb.CascadeTrajectorySummary{Summary: k.title, StepCount: uint32(len(k.steps)), LastModifiedTime: timestamppb.New(k.modified),
			TrajectoryId: k.trajectory, Status: k.status, CreatedTime: timestamppb.New(k.created), Annotations: proto.CloneOf(k.notes), WaitingSteps: k.waitingSteps()}
		for _, uri := range k.workspaces {
			s.Workspaces = append(s.Workspaces, &cortexpb.CortexWorkspaceMetadata{WorkspaceFolderAbsoluteUri: uri})
		}
		if k.lastInput >= 0 {
			s.LastUserInputStepIndex = new(uint32(k.lastInput))
			s.LastUserInputTime = k.steps[k.lastInput].GetMetadata().GetCreatedAt()
		}
		all[id] = s
	}
	for id, t := range c.stored {
		all[id] = &jetskicortexpb.CascadeTrajectorySummary{StepCount: uint32(len(t.Steps)), TrajectoryId: t.TrajectoryId, Status: idle, CreatedTime: t.Metadata.GetCreatedAt(),
			LastModifiedTime: timestamppb.New(c.changed[id]), Workspaces: t.Metadata.GetWorkspaces()}
	}
	return all
}

func (k *cascade) waitingSteps() []*jetskicortexpb.CortexTrajectoryStepWithIndex {
	var steps []*jetskicortexpb.CortexTrajectoryStepWithIndex
	for i := range k.steps {
		if _, ok := k.waiting[i]; ok {
			steps = append(steps, &jetskicortexpb.CortexTrajectoryStepWithIndex{Step: proto.CloneOf(k.steps[i]), StepIndex: uint32(i)})
		}
	}
	return steps
}

// A subscriber reads the changes of a conversation.
type subscriber struct {
	updates chan *jetskicortexpb.AgentStateUpdate
	ended   chan struct{}
	reason  error // set before ended is closed
}

// maxUpdates is the maximum number of updates that wait for a subscriber that does not read.
const maxUpdates = 4096

// subscribe begins with a snapshot. A second subscriber of the same name ends the first.
func (k *cascade) subscribe(name string) *subscriber {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	if k.subscribers[name] != nil {
		k.unsubscribe(name, errors.New("subscription closed by repeat id"))
	}
	s := &subscriber{updates: make(chan *jetskicortexpb.AgentStateUpdate, maxUpdates), ended: make(chan struct{})}
	k.subscribers[name] = s
	update := k.update()
	update.Status, update.ExecutableStatus, update.ExecutorLoopStatus = k.status, k.status, k.status
	update.MainTrajectoryUpdate = k.stepsUpdate(0, len(k.steps))
	update.MainTrajectoryUpdate.Status = k.status
	s.updates <- update
	return s
}

// unsubscribe ends a subscription. Its caller holds the lock.
func (k *cascade) unsubscribe(name string, reason error) {
	s := k.subscribers[name]
	s.reason = reason
	close(s.ended)
	delete(k.subscribers, name)
}

// leave ends the subscription of a stream that is over, unless another one has its name.
func (k *cascade) leave(name string, s *subscriber) {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	if k.subscribers[name] == s {
		k.unsubscribe(name, nil)
	}
}

func (k *cascade) update() *jetskicortexpb.AgentStateUpdate {
	return &jetskicortexpb.AgentStateUpdate{ConversationId: k.id, TrajectoryId: k.trajectory}
}

func (k *cascade) stepsUpdate(from, to int) *jetskicortexpb.TrajectoryUpdate {
	update := &jetskicortexpb.StepsUpdate{TotalLength: uint32(len(k.steps))}
	for i := from; i < to; i++ {
		update.Indices, update.Steps = append(update.Indices, uint32(i)), append(update.Steps, proto.CloneOf(k.steps[i]))
	}
	return &jetskicortexpb.TrajectoryUpdate{StepsUpdate: update, WaitingSteps: k.waitingSteps()}
}

// publish sends an update to all subscribers, and marks the summary as changed. Its caller holds
// the lock.
func (k *cascade) publish(update *jetskicortexpb.AgentStateUpdate) {
	k.modified = time.Now()
	for name, s := range k.subscribers {
		select {
		case s.updates <- update:
		default:
			k.unsubscribe(name, errors.New("the subscriber is too slow"))
		}
	}
}

func (k *cascade) summaryChanged() {
	k.all.unpushed[k.id] = true
	select {
	case k.all.dirty <- struct{}{}:
	default:
	}
}

func (k *cascade) setStatus(status cortexpb.CascadeRunStatus) {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	k.status = status
	update := k.update()
	update.Status, update.ExecutableStatus, update.ExecutorLoopStatus = status, status, status
	k.publish(update)
	k.summaryChanged()
}

// addStep records a step and returns its index.
func (k *cascade) addStep(step *geminicoder.Step) int {
	defer k.stepSaved()
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	i := len(k.steps)
	if step.Metadata == nil {
		step.Metadata = &cortexpb.CortexStepMetadata{}
	}
	step.Metadata.CreatedAt = timestamppb.Now()
	step.Metadata.ViewableAt = step.Metadata.CreatedAt
	step.Metadata.SourceTrajectoryStepInfo = &cortexpb.SourceTrajectoryStepInfo{TrajectoryId: k.trajectory, StepIndex: uint32(i), CascadeId: k.id}
	if terminal(step.Status) {
		step.Metadata.CompletedAt = step.Metadata.CreatedAt
	}
	k.steps, k.lengths = append(k.steps, step), append(k.lengths, len(k.contents))
	if step.GetUserInput() != nil {
		k.lastInput = i
	}
	k.publishSteps(i)
	return i
}

// changeStep changes a step in place.
func (k *cascade) changeStep(i int, change func(*geminicoder.Step)) {
	moved := false
	defer func() {
		if moved {
			k.stepSaved()
		}
	}()
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	if i >= len(k.steps) {
		return // reverted in between
	}
	before := k.steps[i].Status
	change(k.steps[i])
	k.unsavedFrom(i)
	moved = k.steps[i].Status != before
	if terminal(k.steps[i].Status) && k.steps[i].Metadata.CompletedAt == nil {
		k.steps[i].Metadata.CompletedAt = timestamppb.Now()
	}
	k.publishSteps(i)
}

func (k *cascade) publishSteps(i int) {
	update := k.update()
	update.MainTrajectoryUpdate = k.stepsUpdate(i, i+1)
	k.publish(update)
}

// message is a message of a user.
type message struct {
	text     string
	items    []*codeiumcommonpb.TextOrScopeItem
	media    []part
	config   *cortexpb.CascadeConfig
	model    int32
	readOnly bool
	step     int // of a message that waits in a queue, else -1
}

// eager reports whether commands run without permission. Without a policy they do not.
func (m message) eager() bool {
	policy := m.config.GetPlannerConfig().GetToolConfig().GetRunCommand().GetAutoCommandConfig().GetAutoExecutionPolicy()
	return policy == codeiumcommonpb.CascadeCommandsAutoExecution_CASCADE_COMMANDS_AUTO_EXECUTION_EAGER
}

package standin

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
)

// unknown returns an error with the code of most failures of the real server.
func unknown(err error) error { return connect.NewError(connect.CodeUnknown, err) }

func (s *service) find(id string) (*cascade, error) {
	k, err := s.p.conversations.find(id)
	if err != nil {
		return nil, unknown(err)
	}
	return k, nil
}

// StartCascade accepts an ID from the client. Then it can be repeated.
func (s *service) StartCascade(_ context.Context, r *languageserverpb.StartCascadeRequest) (*languageserverpb.StartCascadeResponse, error) {
	for _, uri := range r.WorkspaceUris {
		if _, err := filePath(uri); err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
	}
	s.mu.Lock()
	workspaces := slices.Concat(r.WorkspaceUris, s.directories)
	for _, path := range s.workspaces {
		workspaces = append(workspaces, fileURI(path))
	}
	s.mu.Unlock()
	c, id := s.p.conversations, cmp.Or(r.GetCascadeId(), newUUID())
	if _, err := c.find(id); err != nil {
		c.mu.Lock()
		if c.cascades[id] == nil {
			k := c.add(id)
			k.source, k.workspaces = r.Source, workspaces
			k.kind = cmp.Or(r.TrajectoryType, cortexpb.CortexTrajectoryType_CORTEX_TRAJECTORY_TYPE_CASCADE)
			k.summaryChanged()
		}
		c.mu.Unlock()
	}
	return &languageserverpb.StartCascadeResponse{CascadeId: id}, nil
}

// newMessage reads a message and the configuration that comes with it.
func newMessage(r *languageserverpb.SendUserCascadeMessageRequest) message {
	m := message{items: r.Items, config: r.CascadeConfig, model: chosenModel(r.CascadeConfig), step: -1}
	var texts []string
	for _, item := range r.Items {
		texts = append(texts, item.GetText())
	}
	m.text = strings.Join(texts, "\n")
	for _, image := range r.Images {
		m.media = append(m.media, part{Inline: &inlineData{image.MimeType, image.Base64Data}})
	}
	for _, media := range r.Media {
		if data := media.GetInlineData(); len(data) > 0 {
			m.media = append(m.media, part{Inline: &inlineData{media.MimeType, base64.StdEncoding.EncodeToString(data)}})
		}
	}
	mode := r.CascadeConfig.GetPlannerConfig().GetConversational().GetPlannerMode()
	m.readOnly = mode == codeiumcommonpb.ConversationalPlannerMode_CONVERSATIONAL_PLANNER_MODE_READ_ONLY
	return m
}

func chosenModel(config *cortexpb.CascadeConfig) int32 {
	planner := config.GetPlannerConfig()
	return int32(cmp.Or(planner.GetRequestedModel().GetModel(), planner.GetPlanModel()))
}

// SendUserCascadeMessage starts a turn, or queues the message of a conversation that is busy. It
// never waits for the answer.
func (s *service) SendUserCascadeMessage(ctx context.Context, r *languageserverpb.SendUserCascadeMessageRequest) (*languageserverpb.SendUserCascadeMessageResponse, error) {
	p := s.p
	if p.faults.due("crash-on-send") {
		p.crash("crash-on-send")
	}
	p.eat()
	k, err := s.find(r.CascadeId)
	if err != nil {
		return nil, err
	}
	m := newMessage(r)
	switch {
	case m.text == "" && len(m.media) == 0:
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the message has no items"))
	case m.model == 0 && p.generation != classic:
		return nil, unknown(errors.New("neither PlanModel nor RequestedModel specified"))
	}
	if queued := k.enqueue(m); queued {
		return &languageserverpb.SendUserCascadeMessageResponse{Queued: p.generation == classic}, nil
	}
	var accepted chan struct{}
	if r.Blocking {
		accepted = make(chan struct{})
	}
	k.begin(m, accepted)
	if r.Blocking {
		select {
		case <-accepted:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &languageserverpb.SendUserCascadeMessageResponse{}, nil
}

// enqueue keeps a message for later if the conversation is busy. Otherwise it is busy now.
func (k *cascade) enqueue(m message) bool {
	k.all.mu.Lock()
	busy := k.busy
	k.busy = true
	if busy && k.all.p.generation != classic {
		k.queue = append(k.queue, m)
	}
	k.all.mu.Unlock()
	if busy && k.all.p.generation == classic {
		m.step = k.addStep(inputStep(m, true))
		k.all.mu.Lock()
		k.queue = append(k.queue, m)
		k.all.mu.Unlock()
	}
	return busy
}

// SendAllQueuedMessages starts a turn with the messages that wait since the last one.
func (s *service) SendAllQueuedMessages(_ context.Context, r *languageserverpb.SendAllQueuedMessagesRequest) (*languageserverpb.SendAllQueuedMessagesResponse, error) {
	k, err := s.find(r.CascadeId)
	if err != nil {
		return nil, err
	}
	c := s.p.conversations
	c.mu.Lock()
	if k.busy || len(k.queue) == 0 {
		c.mu.Unlock()
		return nil, unknown(errors.New("no messages are queued, or the cascade is not idle"))
	}
	k.busy = true
	waiting := k.queue
	k.queue = nil
	c.mu.Unlock()
	last := waiting[len(waiting)-1]
	if model := chosenModel(r.CascadeConfig); model != 0 {
		last.model = model
	}
	for _, m := range waiting[:len(waiting)-1] {
		k.recordInput(m)
	}
	k.begin(last, nil)
	return &languageserverpb.SendAllQueuedMessagesResponse{}, nil
}

func (s *service) CancelCascadeInvocation(_ context.Context, r *languageserverpb.CancelCascadeInvocationRequest) (*languageserverpb.CancelCascadeInvocationResponse, error) {
	k, err := s.find(r.CascadeId)
	if err != nil {
		return nil, err
	}
	s.p.conversations.mu.Lock()
	cancel := k.cancel
	k.queue = nil
	s.p.conversations.mu.Unlock()
	if cancel != nil {
		k.setStatus(canceling)
		cancel()
	}
	return &languageserverpb.CancelCascadeInvocationResponse{}, nil
}

// window returns the range of the steps of one answer: an answer has at most a page of them.
func (s *service) window(k *cascade, offset uint32) (from, to int) {
	from = min(int(offset), len(k.steps))
	return from, min(from+s.p.page, len(k.steps))
}

func (s *service) GetCascadeTrajectory(_ context.Context, r *languageserverpb.GetCascadeTrajectoryRequest) (*languageserverpb.GetCascadeTrajectoryResponse, error) {
	k, err := s.find(r.CascadeId)
	if err != nil {
		return nil, err
	}
	s.p.conversations.mu.Lock()
	defer s.p.conversations.mu.Unlock()
	from, to := s.window(k, 0)
	return &languageserverpb.GetCascadeTrajectoryResponse{Trajectory: proto.CloneOf(k.snapshot(from, to)), Status: k.status,
		NumTotalSteps: uint32(len(k.steps)), NumTotalGeneratorMetadata: uint32(len(k.generators))}, nil
}

func (s *service) GetCascadeTrajectorySteps(_ context.Context, r *languageserverpb.GetCascadeTrajectoryStepsRequest) (*languageserverpb.GetCascadeTrajectoryStepsResponse, error) {
	k, err := s.find(r.CascadeId)
	if err != nil {
		return nil, err
	}
	s.p.conversations.mu.Lock()
	defer s.p.conversations.mu.Unlock()
	from, to := s.window(k, r.StepOffset)
	return proto.CloneOf(&languageserverpb.GetCascadeTrajectoryStepsResponse{Steps: k.steps[from:to]}), nil
}

func (s *service) GetCascadeTrajectoryGeneratorMetadata(_ context.Context, r *languageserverpb.GetCascadeTrajectoryGeneratorMetadataRequest) (*languageserverpb.GetCascadeTrajectoryGeneratorMetadataResponse, error) {
	k, err := s.find(r.CascadeId)
	if err != nil {
		return nil, err
	}
	s.p.conversations.mu.Lock()
	defer s.p.conversations.mu.Unlock()
	from := min(int(r.GeneratorMetadataOffset), len(k.generators))
	return proto.CloneOf(&languageserverpb.GetCascadeTrajectoryGeneratorMetadataResponse{GeneratorMetadata: k.generators[from:]}), nil
}

func (s *service) GetAllCascadeTrajectories(context.Context, *languageserverpb.GetAllCascadeTrajectoriesRequest) (*languageserverpb.GetAllCascadeTrajectoriesResponse, error) {
	return &languageserverpb.GetAllCascadeTrajectoriesResponse{TrajectorySummaries: s.p.conversations.summaries()}, nil
}

// HandleCascadeUserInteraction answers a step that waits. It has to be the right step, with the
// member that the step asks for.
func (s *service) HandleCascadeUserInteraction(_ context.Context, r *languageserverpb.HandleCascadeUserInteractionRequest) (*languageserverpb.HandleCascadeUserInteractionResponse, error) {
	k, err := s.find(r.CascadeId)
	if err != nil {
		return nil, err
	}
	interaction := r.Interaction
	s.p.conversations.mu.Lock()
	defer s.p.conversations.mu.Unlock()
	w, ok := k.waiting[int(interaction.GetStepIndex())]
	if !ok || interaction.GetTrajectoryId() != k.trajectory || memberOf(interaction) != w.member {
		return nil, unknown(fmt.Errorf("input not registered for step %d", interaction.GetStepIndex()))
	}
	delete(k.waiting, int(interaction.StepIndex))
	w.answer <- interaction
	return &languageserverpb.HandleCascadeUserInteractionResponse{}, nil
}

func (s *service) DeleteCascadeTrajectory(_ context.Context, r *languageserverpb.DeleteCascadeTrajectoryRequest) (*languageserverpb.DeleteCascadeTrajectoryResponse, error) {
	if err := s.p.conversations.remove(r.CascadeId); err != nil {
		return nil, unknown(err)
	}
	return &languageserverpb.DeleteCascadeTrajectoryResponse{}, nil
}

// RevertToCascadeStep keeps the steps up to an index.
func (s *service) RevertToCascadeStep(_ context.Context, r *languageserverpb.RevertToCascadeStepRequest) (*languageserverpb.RevertToCascadeStepResponse, error) {
	k, err := s.find(r.CascadeId)
	if err != nil {
		return nil, err
	}
	if chosenModel(r.OverrideConfig) == 0 {
		return nil, unknown(errors.New("plan model not specified"))
	}
	c := s.p.conversations
	c.mu.Lock()
	defer c.mu.Unlock()
	keep := int(r.StepIndex) + 1
	switch {
	case k.busy:
		return nil, unknown(errors.New("the cascade is not idle"))
	case keep < 1 || keep > len(k.steps):
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("step index %d is out of range", r.StepIndex))
	}
	if keep < len(k.lengths) {
		k.contents = k.contents[:k.lengths[keep]]
		if last := len(k.contents) - 1; last >= 0 && len((&answer{parts: k.contents[last].Parts}).calls()) > 0 {
			k.contents = k.contents[:last] // calls without results
		}
	}
	k.steps, k.lengths = k.steps[:keep:keep], k.lengths[:keep:keep]
	k.unsavedFrom(keep)
	k.lastInput = -1
	for i, step := range k.steps {
		if step.GetUserInput() != nil {
			k.lastInput = i
		}
	}
	update := k.update()
	update.MainTrajectoryUpdate = &jetskicortexpb.TrajectoryUpdate{StepsUpdate: &jetskicortexpb.StepsUpdate{TotalLength: uint32(keep)}}
	k.publish(update)
	k.summaryChanged()
	return &languageserverpb.RevertToCascadeStepResponse{}, nil
}

func (s *service) UpdateConversationAnnotations(_ context.Context, r *languageserverpb.UpdateConversationAnnotationsRequest) (*languageserverpb.UpdateConversationAnnotationsResponse, error) {
	k, err := s.find(r.CascadeId)
	if err != nil {
		return nil, err
	}
	s.p.conversations.mu.Lock()
	defer s.p.conversations.mu.Unlock()
	if !r.MergeAnnotations {
		k.notes = &jetskicortexpb.ConversationAnnotations{}
	}
	if r.Annotations != nil {
		proto.Merge(k.notes, r.Annotations)
	}
	k.summaryChanged()
	return &languageserverpb.UpdateConversationAnnotationsResponse{}, nil
}

func (s *service) LoadTrajectory(_ context.Context, r *languageserverpb.LoadTrajectoryRequest) (*languageserverpb.LoadTrajectoryResponse, error) {
	c := s.p.conversations
	c.mu.Lock()
	defer c.mu.Unlock()
	switch id := r.CascadeId; {
	case c.cascades[id] != nil:
	case c.stored[id] != nil:
		c.load(id)
	default:
		return nil, unknown(fmt.Errorf("trajectory %s not found", id))
	}
	return &languageserverpb.LoadTrajectoryResponse{}, nil
}

// AddTrackedWorkspace takes a path, not a URI.
func (s *service) AddTrackedWorkspace(_ context.Context, r *languageserverpb.AddTrackedWorkspaceRequest) (*languageserverpb.AddTrackedWorkspaceResponse, error) {
	path := r.Workspace
	if !filepath.IsAbs(filepath.FromSlash(path)) || strings.Contains(path, "://") {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("workspace %q is not an absolute path", path))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.workspaces, path) {
		s.workspaces = append(s.workspaces, path)
	}
	return &languageserverpb.AddTrackedWorkspaceResponse{}, nil
}

// SetWorkingDirectories takes URIs, not paths.
func (s *service) SetWorkingDirectories(_ context.Context, r *languageserverpb.SetWorkingDirectoriesRequest) (*languageserverpb.SetWorkingDirectoriesResponse, error) {
	for _, uri := range r.DirectoryUris {
		if _, err := filePath(uri); err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.directories = r.DirectoryUris
	return &languageserverpb.SetWorkingDirectoriesResponse{}, nil
}

func (s *service) GetWorkspaceInfos(context.Context, *languageserverpb.GetWorkspaceInfosRequest) (*languageserverpb.GetWorkspaceInfosResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	home := filepath.Dir(s.p.gemini)
	answer := &languageserverpb.GetWorkspaceInfosResponse{HomeDirPath: home, HomeDirUri: fileURI(home)}
	for _, path := range s.workspaces {
		answer.WorkspaceInfos = append(answer.WorkspaceInfos, &languageserverpb.WorkspaceInfo{WorkspaceUri: fileURI(path)})
	}
	return answer, nil
}

// GetModelResponse calls a model outside of conversations.
func (s *service) GetModelResponse(ctx context.Context, r *languageserverpb.GetModelResponseRequest) (*languageserverpb.GetModelResponseResponse, error) {
	model, ok := s.p.cloud.byEnum(int32(r.Model))
	if !ok {
		return nil, unknown(fmt.Errorf("model not found: %s", enumName(int32(r.Model))))
	}
	body := envelope{RequestID: "chat/" + newUUID(), Model: model.ID, RequestType: "chat",
		Request: generation{Contents: []content{{Role: "user", Parts: []part{{Text: &r.Prompt}}}}, Config: model.configure()}}
	a, err := s.p.cloud.stream(ctx, body, func(*answer) {})
	if err != nil {
		return nil, unknown(err)
	}
	return &languageserverpb.GetModelResponseResponse{Response: a.text(false)}, nil
}

// StreamAgentStateUpdates sends a snapshot, and then changes.
func (s *service) StreamAgentStateUpdates(ctx context.Context, r *connect.Request[jetskicortexpb.StreamAgentStateUpdatesRequest], stream *connect.ServerStream[jetskicortexpb.StreamAgentStateUpdatesResponse]) error {
	if r.Msg.SubscriberId == "" {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("subscriber_id is required"))
	}
	k, err := s.find(r.Msg.ConversationId)
	if err != nil {
		return err
	}
	subscription := k.subscribe(r.Msg.SubscriberId)
	defer k.leave(r.Msg.SubscriberId, subscription)
	most := s.p.faults.size("drop-streams")
	for sent := 1; ; sent++ {
		select {
		case update := <-subscription.updates:
			if err := stream.Send(&jetskicortexpb.StreamAgentStateUpdatesResponse{Update: update}); err != nil {
				return err
			}
		case <-subscription.ended:
			return unknown(subscription.reason)
		case <-ctx.Done():
			return ctx.Err()
		}
		if most > 0 && sent == most {
			return nil
		}
	}
}

// eat allocates memory, once, if a fault requires it.
func (p *process) eat() {
	n := p.faults.size("eat-memory")
	if n == 0 {
		return
	}
	p.eating.Do(func() {
		p.eaten = make([]byte, n<<20)
		for i := 0; i < len(p.eaten); i += 4096 {
			p.eaten[i] = 1
		}
		p.log.info("took %d MiB of memory", n)
	})
}

package trajectory

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"perigee"
	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// said is a message of the user; a zero time leaves the time out.
func said(text string, at time.Time) *geminicoder.Step {
	s := &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_USER_INPUT, Status: cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE,
		Step: &geminicoder.Step_UserInput{UserInput: &cortexpb.CortexStepUserInput{
			Items: []*codeiumcommonpb.TextOrScopeItem{{Chunk: &codeiumcommonpb.TextOrScopeItem_Text{Text: text}}}}}}
	if !at.IsZero() {
		s.Metadata = &cortexpb.CortexStepMetadata{CreatedAt: timestamppb.New(at)}
	}
	return s
}

// answered is a complete text of the model.
func answered(text string) *geminicoder.Step {
	return &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_PLANNER_RESPONSE, Status: cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE,
		Step: &geminicoder.Step_PlannerResponse{PlannerResponse: &cortexpb.CortexStepPlannerResponse{
			Response: text, StopReason: codeiumcommonpb.StopReason_STOP_REASON_STOP_PATTERN}}}
}

// A memory is a source and a reader.
type memory struct {
	name string

	mu       sync.Mutex
	listing  Listing
	err      error // of the source
	steps    map[string][]*geminicoder.Step
	readErr  error
	running  bool
	readings int
	listings int
}

func newMemory() *memory { return &memory{name: "memory", steps: map[string][]*geminicoder.Step{}} }

// put adds or replaces a conversation.
func (m *memory) put(s Summary, steps ...*geminicoder.Step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listing.Conversations = slices.DeleteFunc(slices.Clone(m.listing.Conversations), func(c Summary) bool { return c.ID == s.ID })
	m.listing.Conversations = append(m.listing.Conversations, s)
	m.steps[s.ID] = steps
}

func (m *memory) source() Source { return Source{m.name, m.Summaries} }

func (m *memory) Summaries(context.Context) (Listing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listings++
	return m.listing, m.err
}

func (m *memory) Trajectory(_ context.Context, id string) (*languageserverpb.GetCascadeTrajectoryResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.readErr != nil {
		return nil, m.readErr
	}
	steps := m.steps[id]
	status := cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE
	if m.running {
		status = cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_RUNNING
	}
	return &languageserverpb.GetCascadeTrajectoryResponse{Trajectory: &geminicoder.Trajectory{Steps: steps}, NumTotalSteps: uint32(len(steps)), Status: status}, nil
}

func (m *memory) Steps(_ context.Context, id string, offset int) ([]*geminicoder.Step, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readings++
	if m.readErr != nil {
		return nil, m.readErr
	}
	steps, ok := m.steps[id]
	if !ok {
		return nil, perigee.Errorf(perigee.ClassNotFound, "no conversation %s", id)
	}
	return steps[min(offset, len(steps)):], nil
}

func (m *memory) Updates(context.Context, string) iter.Seq2[*jetskicortexpb.AgentStateUpdate, error] {
	return func(yield func(*jetskicortexpb.AgentStateUpdate, error) bool) { yield(nil, errors.ErrUnsupported) }
}

// at is a summary of a conversation that was changed at a time.
func at(id string, modified time.Time, workspaces ...string) Summary {
	return Summary{ID: id, Modified: modified, Workspaces: workspaces}
}

func readers(list ...Reader) []Reader { return list }

// A conversationFile is the database of a conversation, as a language server keeps it.
type conversationFile struct {
	t  testing.TB
	db *sql.DB
}

func newConversationFile(t testing.TB, dir, id, journal string, workspaces ...string) *conversationFile {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, id+".db")+"?_pragma=journal_mode("+journal+")&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	f := &conversationFile{t, db}
	t.Cleanup(f.close)
	f.exec(`CREATE TABLE trajectory_meta (trajectory_id TEXT, cascade_id TEXT, trajectory_type INTEGER, source INTEGER)`)
	f.exec(`CREATE TABLE steps (idx INTEGER PRIMARY KEY, step_type INTEGER, status INTEGER, has_subtrajectory INTEGER, metadata BLOB,
		error_details BLOB, permissions BLOB, task_details BLOB, render_info BLOB, step_payload BLOB, step_format INTEGER)`)
	f.exec(`CREATE TABLE trajectory_metadata_blob (id TEXT PRIMARY KEY, data BLOB)`)
	f.exec(`INSERT INTO trajectory_meta VALUES (?, ?, 4, 1)`, "trajectory of "+id, id)
	metadata := &cortexpb.CortexTrajectoryMetadata{CreatedAt: timestamppb.Now()}
	for _, uri := range workspaces {
		metadata.Workspaces = append(metadata.Workspaces, &cortexpb.CortexWorkspaceMetadata{WorkspaceFolderAbsoluteUri: uri})
	}
	f.exec(`INSERT INTO trajectory_metadata_blob VALUES ('main', ?)`, encode(t, metadata))
	return f
}

func encode(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (f *conversationFile) exec(query string, args ...any) {
	f.t.Helper()
	if _, err := f.db.ExecContext(context.Background(), query, args...); err != nil {
		f.t.Fatal(err)
	}
}

// add appends steps. Their metadata is in a column of its own, as newer versions have it.
func (f *conversationFile) add(steps ...*geminicoder.Step) {
	f.t.Helper()
	for _, s := range steps {
		payload := proto.CloneOf(s)
		payload.Metadata = nil
		var metadata []byte
		if s.Metadata != nil {
			metadata = encode(f.t, s.Metadata)
		}
		f.exec(`INSERT INTO steps (idx, step_type, status, metadata, step_payload) SELECT coalesce(max(idx) + 1, 0), ?, ?, ?, ? FROM steps`,
			int(s.Type), int(s.Status), metadata, encode(f.t, payload))
	}
}

func (f *conversationFile) close() { _ = f.db.Close() }

// problems are the degradations as texts.
func problems(m Match) []string {
	lines := map[string]bool{}
	for _, d := range m.Degraded {
		lines[d] = true
	}
	return slices.Sorted(maps.Keys(lines))
}

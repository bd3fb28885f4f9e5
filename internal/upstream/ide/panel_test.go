//go:build linux

package ide

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"perigee"
	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	geminicoder "perigee/gen/gemini_coder"
	"perigee/internal/mcp/ask"
	"perigee/internal/testing/bridgetest"
	"perigee/internal/testing/perigeetest/await"
)

// A panelRig is a window without a language server that perigee can reach: prompts go into its
// panel, and it writes conversations to their files.
type panelRig struct {
	*rig
	dir       string // of conversations
	workspace string

	lost func() // called when the prompt "lost" was submitted

	mu     sync.Mutex
	count  int
	before []map[string]any
}

func newPanelRig(t *testing.T) *panelRig {
	t.Helper()
	r := newRig(t)
	p := &panelRig{rig: r, dir: filepath.Join(r.home, ".gemini", "antigravity", "conversations"), workspace: t.TempDir()}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	panel := bridgetest.Capabilities()
	panel["follow"] = false
	r.window(bridgetest.Options{Workspace: []string{p.workspace}, Capabilities: panel, Ask: unasked(t), Submit: p.submit}, nil)
	return p
}

// submit is the panel: it begins a conversation, whose answer is the prompt in capitals.
func (p *panelRig) submit(_ context.Context, a *bridgetest.Ask) (any, *bridgetest.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, now := append([]map[string]any{}, p.before...), time.Now()
	if a.Prompt == "refused" {
		return nil, &bridgetest.Error{Code: -32003, Message: "another prompt is on its way"}
	}
	p.count++
	id := fmt.Sprintf("%08d-0000-4000-8000-000000000000", p.count)
	if a.Prompt != "lost" {
		if err := p.write(id, a.Prompt, now); err != nil {
			return nil, &bridgetest.Error{Code: -32603, Message: err.Error()}
		}
		p.before = append(p.before, map[string]any{"id": id, "modified": now.UTC().Format(time.RFC3339Nano), "steps": 2})
	} else {
		p.lost()
	}
	return map[string]any{"submitted": now.UTC().Format(time.RFC3339Nano), "before": before}, nil
}

// write writes the file of a conversation as a language server does.
func (p *panelRig) write(id, prompt string, now time.Time) error {
	db, err := sql.Open("sqlite", filepath.Join(p.dir, id+".db"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	user := &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_USER_INPUT, Status: cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE,
		Metadata: &cortexpb.CortexStepMetadata{CreatedAt: timestamppb.New(now)},
		Step: &geminicoder.Step_UserInput{UserInput: &cortexpb.CortexStepUserInput{
			Items: []*codeiumcommonpb.TextOrScopeItem{{Chunk: &codeiumcommonpb.TextOrScopeItem_Text{Text: prompt}}}}}}
	model := &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_PLANNER_RESPONSE, Status: cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE,
		Step: &geminicoder.Step_PlannerResponse{PlannerResponse: &cortexpb.CortexStepPlannerResponse{
			Response: strings.ToUpper(prompt), StopReason: codeiumcommonpb.StopReason_STOP_REASON_STOP_PATTERN}}}
	metadata := &cortexpb.CortexTrajectoryMetadata{CreatedAt: timestamppb.New(now),
		Workspaces: []*cortexpb.CortexWorkspaceMetadata{{WorkspaceFolderAbsoluteUri: "file://" + p.workspace}}}
	for _, statement := range []struct {
		query string
		args  []any
	}{
		{`CREATE TABLE trajectory_meta (trajectory_id TEXT, cascade_id TEXT, trajectory_type INTEGER, source INTEGER)`, nil},
		{`CREATE TABLE steps (idx INTEGER PRIMARY KEY, step_type INTEGER, status INTEGER, has_subtrajectory INTEGER, metadata BLOB,
			error_details BLOB, permissions BLOB, task_details BLOB, render_info BLOB, step_payload BLOB, step_format INTEGER)`, nil},
		{`CREATE TABLE trajectory_metadata_blob (id TEXT PRIMARY KEY, data BLOB)`, nil},
		{`INSERT INTO trajectory_meta VALUES (?, ?, 4, 1)`, []any{"trajectory of " + id, id}},
		{`INSERT INTO trajectory_metadata_blob VALUES ('main', ?)`, []any{marshal(metadata)}},
		{`INSERT INTO steps (idx, step_type, status, step_payload) VALUES (0, ?, ?, ?)`, []any{int(user.Type), int(user.Status), marshal(user)}},
		{`INSERT INTO steps (idx, step_type, status, step_payload) VALUES (1, ?, ?, ?)`, []any{int(model.Type), int(model.Status), marshal(model)}},
	} {
		if _, err := db.ExecContext(context.Background(), statement.query, statement.args...); err != nil {
			return err
		}
	}
	return nil
}

func marshal(m proto.Message) []byte {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return data
}

// The answer to a prompt that went into the panel is found in what the IDE stores.
func TestAskThroughThePanel(t *testing.T) {
	t.Parallel()
	r := newPanelRig(t)
	var progress []ask.Progress
	answer, err := r.Ask(t.Context(), ask.Request{Prompt: "first words"}, func(p ask.Progress) { progress = append(progress, p) })
	if err != nil || answer.Status != ask.Done || answer.Text != "FIRST WORDS" || answer.Conversation == "" || answer.Source != "ide" {
		t.Fatalf("%+v, %v", answer, err)
	}
	if len(progress) == 0 || progress[len(progress)-1].Text != "FIRST WORDS" {
		t.Errorf("progress %v", progress)
	}
	if err := r.fails(perigee.ClassCapacity, ask.Request{Prompt: "refused"}); !errors.Is(err, ask.ErrDeclined) {
		t.Errorf("%v", err)
	}
}

// Prompts at once take turns at the panel, so that each finds its own conversation.
func TestPanelAsksAtOnce(t *testing.T) {
	t.Parallel()
	r := newPanelRig(t)
	var wait sync.WaitGroup
	for i := range 5 {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			answer, err := r.Ask(ctx, ask.Request{Prompt: fmt.Sprint("prompt ", i)}, nil)
			if err != nil || answer.Status != ask.Done || answer.Text != fmt.Sprint("PROMPT ", i) {
				t.Errorf("%d: %+v, %v", i, answer, err)
			}
		})
	}
	await.Return(t, wait.Wait, "all asks")
}

// A prompt that was submitted is never handed to another source, whatever becomes of it.
func TestPanelConversationIsNotFound(t *testing.T) {
	t.Parallel()
	r := newPanelRig(t)
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	r.lost = func() { end(ask.ErrTimeout) }
	answer, err := r.Ask(ctx, ask.Request{Prompt: "lost"}, nil)
	if err != nil || answer.Status != ask.Timeout {
		t.Errorf("%+v, %v", answer, err)
	}
}

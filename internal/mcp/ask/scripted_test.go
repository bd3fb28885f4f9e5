//go:build unix

package ask

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"perigee"
	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
	geminicoder "perigee/gen/gemini_coder"
	"perigee/internal/langserver/lsclient"
)

// A scripted is a language server that shows what a test says, for what the stand-in does not do.
type scripted struct {
	mu       sync.Mutex
	views    []view // one for each reading; the last one stays
	sent     int
	canceled int
	send     func(w http.ResponseWriter) bool // answers SendUserCascadeMessage; false: it has not
}

// A view is a conversation at one moment.
type view struct {
	running bool
	reason  cortexpb.ExecutorTerminationReason
	steps   []*geminicoder.Step
}

func userSaid(text string) *geminicoder.Step {
	return &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_USER_INPUT, Status: cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE,
		Step: &geminicoder.Step_UserInput{UserInput: &cortexpb.CortexStepUserInput{UserResponse: text}}}
}

func planned(done bool, text string) *geminicoder.Step {
	p := &cortexpb.CortexStepPlannerResponse{Response: text}
	status := cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_GENERATING
	if done {
		status, p.StopReason = cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE, codeiumcommonpb.StopReason_STOP_REASON_STOP_PATTERN
	}
	return &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_PLANNER_RESPONSE, Status: status, Step: &geminicoder.Step_PlannerResponse{PlannerResponse: p}}
}

func notified(text string) *geminicoder.Step {
	return &geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_NOTIFY_USER, Status: cortexpb.CortexStepStatus_CORTEX_STEP_STATUS_DONE,
		Step: &geminicoder.Step_NotifyUser{NotifyUser: &cortexpb.CortexStepNotifyUser{NotificationContent: text}}}
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	var answer proto.Message
	switch path.Base(r.URL.Path) {
	case "GetCascadeModelConfigs":
		_, _ = io.WriteString(w, `{"clientModelConfigs":[{"label":"Gemini 3 Flash","modelOrAlias":{"model":"MODEL_PLACEHOLDER_M18"}}]}`)
		return
	case "StartCascade":
		answer = &languageserverpb.StartCascadeResponse{CascadeId: "c"}
	case "SendUserCascadeMessage":
		s.mu.Lock()
		s.sent++
		send := s.send
		s.mu.Unlock()
		if send != nil && send(w) {
			return
		}
		answer = &languageserverpb.SendUserCascadeMessageResponse{}
	case "CancelCascadeInvocation":
		s.mu.Lock()
		s.canceled++
		s.mu.Unlock()
		answer = &languageserverpb.CancelCascadeInvocationResponse{}
	case "GetCascadeTrajectory":
		answer = s.next()
	case "GetCascadeTrajectorySteps":
		answer = &languageserverpb.GetCascadeTrajectoryStepsResponse{}
	default: // StreamAgentStateUpdates, too: the conversation is polled
		w.WriteHeader(http.StatusNotFound)
		return
	}
	data, _ := protojson.Marshal(answer)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}

// next shows the next view.
func (s *scripted) next() *languageserverpb.GetCascadeTrajectoryResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.views[0]
	if len(s.views) > 1 {
		s.views = s.views[1:]
	}
	status := cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE
	if v.running {
		status = cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_RUNNING
	}
	t := &geminicoder.Trajectory{TrajectoryId: "t", Steps: v.steps}
	if v.reason != 0 {
		t.ExecutorMetadatas = []*cortexpb.ExecutorMetadata{{TerminationReason: v.reason, LastStepIdx: int32(len(v.steps) - 1)}}
	}
	return &languageserverpb.GetCascadeTrajectoryResponse{Trajectory: t, Status: status, NumTotalSteps: uint32(len(v.steps))}
}

func (s *scripted) counts() (sent, canceled int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent, s.canceled
}

func (s *scripted) start(t *testing.T) *Agent {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	port := server.Listener.Addr().(*net.TCPAddr).Port
	return NewAgent(lsclient.New(lsclient.Options{Endpoint: lsclient.Fixed(lsclient.Endpoint{HTTP: port})}), AgentOptions{Source: "ide"})
}

const (
	ended      = cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_NO_TOOL_CALL
	outOfSteps = cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_MAX_INVOCATIONS
)

// Text that the server rewrites, and steps that it drops, are not in the answer.
func TestRewrittenText(t *testing.T) {
	t.Parallel()
	s := &scripted{views: []view{
		{true, 0, []*geminicoder.Step{userSaid("hi"), planned(false, "First thou")}},
		{true, 0, []*geminicoder.Step{userSaid("hi"), planned(true, "Second thought."), planned(false, "to be dropped")}},
		{true, 0, []*geminicoder.Step{userSaid("hi"), planned(true, "Second thought.")}},
		{false, ended, []*geminicoder.Step{userSaid("hi"), planned(true, "Second thought."), notified("Please review.")}},
	}}
	var seen []string
	got, err := s.start(t).Ask(t.Context(), Request{Prompt: "hi"}, func(p Progress) { seen = append(seen, p.Text) })
	if err != nil || got.Status != Done || got.Text != "Second thought.\n\nPlease review." || got.Conversation != "c" || got.Source != "ide" {
		t.Errorf("got %+v, %v", got, err)
	}
	if all := strings.Join(seen, "|"); !strings.Contains(all, "First thou") || !strings.Contains(all, "to be dropped") || seen[len(seen)-1] != got.Text {
		t.Errorf("progress %q", seen)
	}
}

func TestAnAgentThatUsedUpItsStepsWaits(t *testing.T) {
	t.Parallel()
	s := &scripted{views: []view{{false, outOfSteps, []*geminicoder.Step{userSaid("hi"), planned(true, "So far.")}}}}
	got, err := s.start(t).Ask(t.Context(), Request{Prompt: "hi"}, nil)
	if err != nil || got.Status != Waiting || got.Text != "So far." || !strings.Contains(got.WaitingFor, "send another message") {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A version that the provider refuses with a text is a failure.
func TestARefusalInTheTextIsAFailure(t *testing.T) {
	t.Parallel()
	s := &scripted{views: []view{{false, ended, []*geminicoder.Step{userSaid("hi"), planned(true, "This version of Antigravity is no longer supported. Please update to the latest version.")}}}}
	got, err := s.start(t).Ask(t.Context(), Request{Prompt: "hi"}, nil)
	if err != nil || got.Status != Failed || got.Error.Class != perigee.ClassIdentity {
		t.Errorf("got %+v, %+v, %v", got, got.Error, err)
	}
}

func hangUp(w http.ResponseWriter) bool {
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = c.Close()
	}
	return true
}

// A message whose answer is lost is not sent again. If it arrived, the ask goes on.
func TestALostAnswerToAMessage(t *testing.T) {
	t.Parallel()
	lost := &scripted{views: []view{{}}, send: hangUp}
	got, err := lost.start(t).Ask(t.Context(), Request{Prompt: "hi"}, nil)
	if sent, _ := lost.counts(); err != nil || got.Status != Failed || got.Error.Class != perigee.ClassUnavailable || sent != 1 || got.Conversation != "c" || !strings.Contains(got.Error.Message, "not known") {
		t.Errorf("got %+v, %+v, %v; sent %d times", got, got.Error, err, sent)
	}
	refused := &scripted{views: []view{{}}, send: func(w http.ResponseWriter) bool {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"code":"unknown","message":"CREDENTIALS_MISSING"}`)
		return true
	}}
	_, err = refused.start(t).Ask(t.Context(), Request{Prompt: "hi"}, nil)
	if sent, _ := refused.counts(); !errors.Is(err, ErrDeclined) || perigee.AsError(err).Class != perigee.ClassUnauthenticated || sent != 1 {
		t.Errorf("a refused message: %v, sent %d times", err, sent)
	}
}

// An ask that ends while the message is on its way may have reached the agent.
func TestCancelWhileTheMessageIsSent(t *testing.T) {
	t.Parallel()
	for status, cause := range map[Status]error{Cancelled: context.Canceled, Timeout: ErrTimeout} {
		ctx, cancel := context.WithCancelCause(t.Context())
		release := make(chan struct{})
		s := &scripted{views: []view{{}}, send: func(http.ResponseWriter) bool {
			cancel(cause)
			<-release
			return true
		}}
		got, err := s.start(t).Ask(ctx, Request{Prompt: "hi"}, nil)
		close(release)
		_, canceled := s.counts()
		if err != nil || got.Status != status || got.Conversation != "c" || (canceled == 1) != (status == Cancelled) {
			t.Errorf("%s: %+v, %v; canceled %d times", status, got, err, canceled)
		}
	}
}

// A language server that cannot be reached declines the ask.
func TestAnUnreachableLanguageServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	a := NewAgent(lsclient.New(lsclient.Options{Endpoint: lsclient.Fixed(lsclient.Endpoint{HTTP: port})}), AgentOptions{Source: "ide"})
	if _, err := a.Ask(t.Context(), Request{Prompt: "hi"}, nil); !errors.Is(err, ErrDeclined) || perigee.AsError(err).Class != perigee.ClassUnavailable {
		t.Errorf("got %v", err)
	}
	if has, err := a.Has(t.Context(), "c"); has || err == nil {
		t.Errorf("has a conversation: %t, %v", has, err)
	}
	if has, err := a.Has(t.Context(), ModelConversation+"x"); has || err != nil {
		t.Errorf("has a conversation with a model: %t, %v", has, err)
	}
}

package lsclient

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	jetskicortexpb "perigee/gen/exa/jetski_cortex_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
	"perigee/gen/exa/language_server_pb/languageserverpbconnect"
	geminicoder "perigee/gen/gemini_coder"

	"perigee"
	"perigee/internal/testing/perigeetest"
)

const token = "b7a1c2d3-0000-4000-8000-csrf00000001"

// A serverRig is a language server with the generated handler. It rejects what a strict one
// rejects: calls without the token, members that the messages do not have, messages without a
// model, and two subscriptions with one id.
type serverRig struct {
	languageserverpbconnect.UnimplementedLanguageServerServiceHandler

	mu          sync.Mutex
	token       string
	cascades    map[string]*cascadeRig
	started     []*languageserverpb.StartCascadeRequest
	sent        []*languageserverpb.SendUserCascadeMessageRequest
	requests    []string // methods, in the order of the calls
	pageSize    int
	subscribers map[string]context.CancelCauseFunc
	raw         map[string]http.HandlerFunc // by method, in place of the generated handler
}

type cascadeRig struct {
	steps []*geminicoder.Step
	busy  bool
}

func newServer() *serverRig {
	return &serverRig{
		token: token, cascades: map[string]*cascadeRig{}, pageSize: 2, subscribers: map[string]context.CancelCauseFunc{}, raw: map[string]http.HandlerFunc{},
	}
}

// handler checks a call before the generated handler gets it.
func (s *serverRig) handler() http.Handler {
	_, generated := languageserverpbconnect.NewLanguageServerServiceHandler(s)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := strings.TrimPrefix(r.URL.Path, Service)
		s.mu.Lock()
		s.requests = append(s.requests, method)
		want, raw := s.token, s.raw[method]
		s.mu.Unlock()
		switch {
		case r.Header.Get("X-Codeium-Csrf-Token") == "":
			http.Error(w, "missing CSRF token", http.StatusUnauthorized)
		case r.Header.Get("X-Codeium-Csrf-Token") != want:
			http.Error(w, "invalid CSRF token", http.StatusForbidden)
		case raw != nil:
			raw(w, r)
		default:
			if err := strict(method, r); err != nil {
				http.Error(w, fmt.Sprintf(`{"code":"invalid_argument","message":%q}`, err.Error()), http.StatusBadRequest)
				return
			}
			generated.ServeHTTP(w, r)
		}
	})
}

// strict decodes a request as a language server does that knows each name.
func strict(method string, r *http.Request) error {
	service := languageserverpb.File_exa_language_server_pb_language_server_proto.Services().ByName("LanguageServerService")
	m := service.Methods().ByName(protoreflect.Name(method))
	if m == nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if m.IsStreamingServer() {
		if len(body) < 5 || body[0] != 0 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-5 {
			return errors.New("no envelope")
		}
		body = body[5:]
	}
	message := newMessage(m.Input())
	return protojson.Unmarshal(body, message)
}

func newMessage(d protoreflect.MessageDescriptor) proto.Message {
	for _, message := range []proto.Message{
		&languageserverpb.StartCascadeRequest{}, &languageserverpb.SendUserCascadeMessageRequest{}, &languageserverpb.SendAllQueuedMessagesRequest{},
		&languageserverpb.CancelCascadeInvocationRequest{}, &languageserverpb.GetCascadeTrajectoryRequest{},
		&languageserverpb.GetCascadeTrajectoryStepsRequest{}, &languageserverpb.GetCascadeTrajectoryGeneratorMetadataRequest{},
		&languageserverpb.GetAllCascadeTrajectoriesRequest{}, &languageserverpb.HandleCascadeUserInteractionRequest{},
		&languageserverpb.DeleteCascadeTrajectoryRequest{}, &languageserverpb.RevertToCascadeStepRequest{}, &languageserverpb.AddTrackedWorkspaceRequest{},
		&languageserverpb.HeartbeatRequest{}, &languageserverpb.GetUserStatusRequest{}, &languageserverpb.GetCascadeModelConfigsRequest{},
		&languageserverpb.ExitRequest{}, &jetskicortexpb.StreamAgentStateUpdatesRequest{},
	} {
		if message.ProtoReflect().Descriptor().FullName() == d.FullName() {
			return message
		}
	}
	panic("no message " + d.FullName())
}

func (s *serverRig) cascade(id string) (*cascadeRig, error) {
	if c := s.cascades[id]; c != nil {
		return c, nil
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("trajectory not found"))
}

func (s *serverRig) Heartbeat(context.Context, *connect.Request[languageserverpb.HeartbeatRequest]) (*connect.Response[languageserverpb.HeartbeatResponse], error) {
	return connect.NewResponse(&languageserverpb.HeartbeatResponse{}), nil
}

func (s *serverRig) GetUserStatus(context.Context, *connect.Request[languageserverpb.GetUserStatusRequest]) (*connect.Response[languageserverpb.GetUserStatusResponse], error) {
	return connect.NewResponse(&languageserverpb.GetUserStatusResponse{UserStatus: &codeiumcommonpb.UserStatus{
		Email: "ada@example.com", CascadeModelConfigData: &codeiumcommonpb.CascadeModelConfigData{ClientModelConfigs: configs()},
	}}), nil
}

func configs() []*codeiumcommonpb.ClientModelConfig {
	model := func(m codeiumcommonpb.Model) *codeiumcommonpb.ModelOrAlias {
		return &codeiumcommonpb.ModelOrAlias{Choice: &codeiumcommonpb.ModelOrAlias_Model{Model: m}}
	}
	return []*codeiumcommonpb.ClientModelConfig{
		{Label: "Gemini 3 Flash", ModelOrAlias: model(codeiumcommonpb.Model_MODEL_PLACEHOLDER_M18), SupportsImages: true, IsRecommended: true},
		{Label: "GPT-OSS 120B", ModelOrAlias: model(codeiumcommonpb.Model_MODEL_OPENAI_GPT_OSS_120B_MEDIUM), Disabled: true},
	}
}

func (s *serverRig) StartCascade(_ context.Context, r *connect.Request[languageserverpb.StartCascadeRequest]) (*connect.Response[languageserverpb.StartCascadeResponse], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = append(s.started, r.Msg)
	id := r.Msg.GetCascadeId()
	if s.cascades[id] == nil {
		s.cascades[id] = &cascadeRig{}
	}
	return connect.NewResponse(&languageserverpb.StartCascadeResponse{CascadeId: id}), nil
}

func (s *serverRig) SendUserCascadeMessage(_ context.Context, r *connect.Request[languageserverpb.SendUserCascadeMessageRequest]) (*connect.Response[languageserverpb.SendUserCascadeMessageResponse], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.cascade(r.Msg.CascadeId)
	if err != nil {
		return nil, err
	}
	planner := r.Msg.GetCascadeConfig().GetPlannerConfig()
	if planner.GetPlanModel() == 0 && planner.GetRequestedModel().GetModel() == 0 {
		return nil, connect.NewError(connect.CodeUnknown, errors.New("neither PlanModel nor RequestedModel specified"))
	}
	s.sent = append(s.sent, r.Msg)
	c.steps = append(c.steps,
		&geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_USER_INPUT, Step: &geminicoder.Step_UserInput{
			UserInput: &cortexpb.CortexStepUserInput{Items: r.Msg.Items, IsQueuedMessage: c.busy}}},
		&geminicoder.Step{Type: cortexpb.CortexStepType_CORTEX_STEP_TYPE_PLANNER_RESPONSE, Step: &geminicoder.Step_PlannerResponse{
			PlannerResponse: &cortexpb.CortexStepPlannerResponse{Response: "an answer"}}})
	return connect.NewResponse(&languageserverpb.SendUserCascadeMessageResponse{Queued: c.busy}), nil
}

func (s *serverRig) GetCascadeTrajectory(_ context.Context, r *connect.Request[languageserverpb.GetCascadeTrajectoryRequest]) (*connect.Response[languageserverpb.GetCascadeTrajectoryResponse], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.cascade(r.Msg.CascadeId)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&languageserverpb.GetCascadeTrajectoryResponse{
		Status: cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE, NumTotalSteps: uint32(len(c.steps)),
		Trajectory: &geminicoder.Trajectory{TrajectoryId: "t-" + r.Msg.CascadeId, CascadeId: r.Msg.CascadeId, Steps: c.steps[:min(len(c.steps), s.pageSize)]},
	}), nil
}

func (s *serverRig) GetCascadeTrajectorySteps(_ context.Context, r *connect.Request[languageserverpb.GetCascadeTrajectoryStepsRequest]) (*connect.Response[languageserverpb.GetCascadeTrajectoryStepsResponse], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.cascade(r.Msg.CascadeId)
	if err != nil {
		return nil, err
	}
	from := min(int(r.Msg.StepOffset), len(c.steps))
	return connect.NewResponse(&languageserverpb.GetCascadeTrajectoryStepsResponse{Steps: c.steps[from:min(from+s.pageSize, len(c.steps))]}), nil
}

func (s *serverRig) StreamAgentStateUpdates(ctx context.Context, r *connect.Request[jetskicortexpb.StreamAgentStateUpdatesRequest], stream *connect.ServerStream[jetskicortexpb.StreamAgentStateUpdatesResponse]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	c, err := s.cascade(r.Msg.ConversationId)
	if old := s.subscribers[r.Msg.SubscriberId]; old != nil {
		old(errors.New("subscription closed by repeat id"))
	}
	s.subscribers[r.Msg.SubscriberId] = cancel
	s.mu.Unlock()
	if err != nil {
		return err
	}
	update := &jetskicortexpb.AgentStateUpdate{
		ConversationId: r.Msg.ConversationId, Status: cortexpb.CascadeRunStatus_CASCADE_RUN_STATUS_IDLE,
		MainTrajectoryUpdate: &jetskicortexpb.TrajectoryUpdate{StepsUpdate: &jetskicortexpb.StepsUpdate{
			Indices: []uint32{0}, Steps: c.steps[:min(1, len(c.steps))], TotalLength: uint32(len(c.steps))}},
	}
	if err := stream.Send(&jetskicortexpb.StreamAgentStateUpdatesResponse{Update: update}); err != nil {
		return err
	}
	<-ctx.Done()
	return connect.NewError(connect.CodeAborted, context.Cause(ctx))
}

// calls counts the calls of a method.
func (s *serverRig) calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(s.requests), func(m string) bool { return m != method }))
}

// handle replaces the generated handler of a method; nil means no longer.
func (s *serverRig) handle(method string, handler http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw[method] = handler
}

func (s *serverRig) answer(method string, status int, body string) {
	s.handle(method, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// serve starts the server and returns where it is.
func serve(t testing.TB, s *serverRig) Endpoint {
	t.Helper()
	server := httptest.NewServer(s.handler())
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	return Endpoint{HTTP: server.Listener.Addr().(*net.TCPAddr).Port, CSRF: perigee.NewSecret(token)}
}

// inBubble returns a client of the server without a network, in the time of a bubble.
func inBubble(t testing.TB, s *serverRig) *Client {
	t.Helper()
	pipes := perigeetest.NewPipes()
	server := &http.Server{Handler: s.handler()}
	go func() { _ = server.Serve(pipes) }()
	t.Cleanup(func() { _ = server.Close() })
	c := connected(Endpoint{HTTP: 1, CSRF: perigee.NewSecret(token)})
	c.http = newHTTPClient(pipes.Dial)
	return c
}

func serveTLS(t testing.TB, s *serverRig) Endpoint {
	t.Helper()
	server := httptest.NewUnstartedServer(s.handler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.StartTLS()
	t.Cleanup(server.Close)
	return Endpoint{HTTPS: server.Listener.Addr().(*net.TCPAddr).Port, CSRF: perigee.NewSecret(token)}
}

func connected(endpoint Endpoint) *Client { return New(Options{Endpoint: Fixed(endpoint)}) }

// freePort is a port on which nothing listens.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func wantClass(t testing.TB, err error, class perigee.Class) {
	t.Helper()
	if err == nil || perigee.AsError(err).Class != class {
		t.Fatalf("got the error %v, want one of class %s", err, class)
	}
}

// compact sorts and shortens JSON.
func compact(t testing.TB, data []byte) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		t.Errorf("%s: %v", data, err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

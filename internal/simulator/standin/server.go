package standin

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	languageserverpb "perigee/gen/exa/language_server_pb"
)

// service serves LanguageServerService. Methods that are not in the messages of perigee are not
// found.
type service struct {
	p *process

	mu            sync.Mutex
	lastHeartbeat time.Time
	workspaces    []string
	directories   []string
}

// handler returns the handler of the two ports.
func (p *process) handler() http.Handler {
	s := &service{p: p}
	mux := http.NewServeMux()
	codec := strictJSON{projects: p.generation == hub}
	utf8 := codec
	utf8.charset = true
	s.handle(mux, connect.WithCodec(codec), connect.WithCodec(utf8))
	if p.generation == hub {
		mux.HandleFunc(servicePath+"GetAvailableModels", jsonMethod(s.availableModels))
		mux.HandleFunc(servicePath+"WaitForConversationFullyIdle", jsonMethod(s.waitFullyIdle))
	}
	neverReady := p.faults.due("never-ready")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		sent := r.Header.Get(csrfHeader)
		hang, hangs := p.faults.has("hang-on-call")
		switch {
		case p.csrf != "" && sent == "":
			http.Error(w, "missing CSRF token", http.StatusUnauthorized)
		case p.csrf != "" && subtle.ConstantTimeCompare([]byte(sent), []byte(p.csrf)) != 1:
			http.Error(w, "invalid CSRF token", http.StatusUnauthorized)
		case hangs && (hang == "*" || hang == method):
			p.log.info("hanging in %s", method)
			<-r.Context().Done()
		case neverReady && (method == "Heartbeat" || method == "GetUserStatus"):
			_ = connect.NewErrorWriter().Write(w, r, connect.NewError(connect.CodeUnavailable, errors.New("the server is not ready")))
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// strictJSON is the JSON form of messages. Unknown names are refused, and model numbers that have
// no name in the messages of perigee are written and read with the name that a server with newer
// messages has for them.
type strictJSON struct {
	charset  bool
	projects bool // conversations may have a project
}

func (s strictJSON) Name() string {
	if s.charset {
		return "json; charset=utf-8"
	}
	return "json"
}

var (
	modelNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"(model|planModel|generatorModel)":\s*(1\d{3})\b`) })
	modelName   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"(model|planModel)":\s*"MODEL_PLACEHOLDER_M(\d+)"`) })
)

func (strictJSON) Marshal(message any) ([]byte, error) {
	text, err := protojson.Marshal(message.(proto.Message))
	return modelNumber().ReplaceAllFunc(text, func(found []byte) []byte {
		parts := modelNumber().FindSubmatch(found)
		number, _ := strconv.Atoi(string(parts[2]))
		return []byte(`"` + string(parts[1]) + `":"` + enumName(int32(number)) + `"`)
	}), err
}

func (s strictJSON) Unmarshal(text []byte, message any) error {
	if len(text) == 0 {
		return errors.New("zero-length payload is not a valid JSON object")
	}
	if _, ok := message.(proto.Message).ProtoReflect().Interface().(*languageserverpb.StartCascadeRequest); ok && s.projects {
		var err error
		if text, err = takeProject(text); err != nil {
			return err
		}
	}
	text = modelName().ReplaceAllFunc(text, func(found []byte) []byte {
		parts := modelName().FindSubmatch(found)
		number, _ := placeholderNumber("MODEL_PLACEHOLDER_M" + string(parts[2]))
		return []byte(`"` + string(parts[1]) + `":` + strconv.Itoa(int(number)))
	})
	return protojson.Unmarshal(text, message.(proto.Message))
}

func (s *service) Heartbeat(context.Context, *languageserverpb.HeartbeatRequest) (*languageserverpb.HeartbeatResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := &languageserverpb.HeartbeatResponse{}
	if !s.lastHeartbeat.IsZero() {
		answer.LastExtensionHeartbeat = timestamppb.New(s.lastHeartbeat)
	}
	s.lastHeartbeat = time.Now()
	return answer, nil
}

// GetUserStatus has no models until the cloud has named them, and fails without a token.
func (s *service) GetUserStatus(ctx context.Context, _ *languageserverpb.GetUserStatusRequest) (*languageserverpb.GetUserStatusResponse, error) {
	if _, err := s.p.tokens.bearer(ctx); err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, err)
	}
	return &languageserverpb.GetUserStatusResponse{UserStatus: &codeiumcommonpb.UserStatus{
		HasUsedAntigravity: true, AcceptedLatestTermsOfService: true,
		CascadeModelConfigData: &codeiumcommonpb.CascadeModelConfigData{ClientModelConfigs: s.configs()},
	}}, nil
}

func (s *service) configs() []*codeiumcommonpb.ClientModelConfig {
	var configs []*codeiumcommonpb.ClientModelConfig
	for _, model := range s.p.cloud.known() {
		configs = append(configs, model.config())
	}
	return configs
}

func (s *service) GetCascadeModelConfigs(ctx context.Context, _ *languageserverpb.GetCascadeModelConfigsRequest) (*languageserverpb.GetCascadeModelConfigsResponse, error) {
	if _, err := s.p.tokens.bearer(ctx); err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, err)
	}
	return &languageserverpb.GetCascadeModelConfigsResponse{ClientModelConfigs: s.configs()}, nil
}

func (s *service) Exit(context.Context, *languageserverpb.ExitRequest) (*languageserverpb.ExitResponse, error) {
	if _, ok := s.p.faults.has("ignore-exit"); ok {
		s.p.log.info("ignoring Exit")
	} else {
		time.AfterFunc(10*time.Millisecond, func() { s.p.finish("Exit was called") }) // most often after the answer
	}
	return &languageserverpb.ExitResponse{}, nil
}

func (s *service) SimulateSegFault(context.Context, *languageserverpb.SimulateSegFaultRequest) (*languageserverpb.SimulateSegFaultResponse, error) {
	s.p.crash("SimulateSegFault was called")
	return &languageserverpb.SimulateSegFaultResponse{}, nil
}

func (s *service) ReconnectExtensionServer(_ context.Context, r *languageserverpb.ReconnectExtensionServerRequest) (*languageserverpb.ReconnectExtensionServerResponse, error) {
	if s.p.extension == nil {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("there is no extension server"))
	}
	s.p.extension.reconnect(int(r.ExtensionServerPort), r.ExtensionServerCsrfToken)
	return &languageserverpb.ReconnectExtensionServerResponse{}, nil
}

func (s *service) SetCloudCodeURL(_ context.Context, r *languageserverpb.SetCloudCodeURLRequest) (*languageserverpb.SetCloudCodeURLResponse, error) {
	s.p.cloud.setEndpoint(r.Url)
	return &languageserverpb.SetCloudCodeURLResponse{}, nil
}

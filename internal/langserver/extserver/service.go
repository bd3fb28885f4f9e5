package extserver

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"perigee"
	pb "perigee/gen/exa/extension_server_pb"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/lib/redact"
)

// A service has the methods of the protocol. The following are unimplemented:
// TerminalResearchResult, EditNotebook, ReadNotebook, HandleProposeCodeExtensionVerification and
// LaunchBrowser.
type service struct {
	*Server

	owned    map[rowName]bool // rows that the language server cannot change
	commands commands

	snapshots snapshots

	// Guarded by the mutex of the server.
	secrets     map[string]string
	secretBytes int
}

func newService(s *Server) *service {
	v := &service{Server: s, owned: map[rowName]bool{tokenRow: true}}
	for row := range policy(s.opts.Policies) {
		v.owned[row] = true
	}
	return v
}

// LanguageServerStarted receives the endpoint of the language server.
func (s *service) LanguageServerStarted(_ context.Context, req *pb.LanguageServerStartedRequest) (*pb.LanguageServerStartedResponse, error) {
	for _, port := range []int32{req.GetHttpPort(), req.GetHttpsPort(), req.GetLspPort()} {
		if port < 0 || port > 65535 {
			return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("a port is between 0 and 65535"))
		}
	}
	s.opts.Started(lsclient.Endpoint{
		HTTP:  int(req.GetHttpPort()),
		HTTPS: int(req.GetHttpsPort()),
		CSRF:  perigee.NewSecret(req.GetCsrfToken()),
	})
	return &pb.LanguageServerStartedResponse{}, nil
}

// RecordError logs the start of an error report of the language server.
func (s *service) RecordError(_ context.Context, req *pb.RecordErrorRequest) (*pb.RecordErrorResponse, error) {
	trace := req.GetErrorTrace()
	hide := redact.New(s.csrf, s.currentToken().Access)
	text := func(value string) string {
		return perigee.Clip(redact.Credentials(hide.Text(perigee.Clip(value, 64<<10))), 1<<10)
	}
	s.opts.Logger.Warn("language server reported an error", "id", text(trace.GetErrorId()), "recovered", trace.GetRecovered(),
		"trace", text(trace.GetStacktrace()))
	return &pb.RecordErrorResponse{}, nil
}

// FetchMCPAuthToken fails, because it would need a person to sign in.
func (s *service) FetchMCPAuthToken(context.Context, *pb.FetchMCPAuthTokenRequest) (*pb.FetchMCPAuthTokenResponse, error) {
	return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("there is no window to sign in to an MCP server"))
}

func (s *service) HandleAsyncPostMessage(_ context.Context, req *pb.HandleAsyncPostMessageRequest) (*pb.HandleAsyncPostMessageResponse, error) {
	answer := &pb.HandleAsyncPostMessageResponse{}
	if req.GetMessageType() == "listTerminals" {
		answer.ResponseContent = `{"terminals":[]}`
	}
	return answer, nil
}

func (s *service) SendTerminalInput(context.Context, *pb.SendTerminalInputRequest) (*pb.SendTerminalInputResponse, error) {
	reason := "headless"
	return &pb.SendTerminalInputResponse{Error: &reason}, nil
}

func (s *service) RunExtensionCode(context.Context, *pb.RunExtensionCodeRequest) (*pb.RunExtensionCodeResponse, error) {
	return &pb.RunExtensionCodeResponse{Output: "not supported"}, nil
}

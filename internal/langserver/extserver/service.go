package extserver

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"perigee"
	pb "perigee/gen/exa/extension_server_pb"
	"perigee/gen/exa/extension_server_pb/extensionserverpbconnect"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/lib/redact"
)

// A service has the methods of the protocol. The following are unimplemented:
// TerminalResearchResult, EditNotebook, ReadNotebook, HandleProposeCodeExtensionVerification and
// LaunchBrowser.
type service struct {
	*Server
	extensionserverpbconnect.UnimplementedExtensionServerServiceHandler

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

func empty[T any]() (*connect.Response[T], error) { return connect.NewResponse(new(T)), nil }

// LanguageServerStarted receives the endpoint of the language server.
func (s *service) LanguageServerStarted(_ context.Context, req *connect.Request[pb.LanguageServerStartedRequest]) (
	*connect.Response[pb.LanguageServerStartedResponse], error) {
	for _, port := range []int32{req.Msg.GetHttpPort(), req.Msg.GetHttpsPort(), req.Msg.GetLspPort()} {
		if port < 0 || port > 65535 {
			return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("a port is between 0 and 65535"))
		}
	}
	s.opts.Started(lsclient.Endpoint{
		HTTP:  int(req.Msg.GetHttpPort()),
		HTTPS: int(req.Msg.GetHttpsPort()),
		CSRF:  perigee.NewSecret(req.Msg.GetCsrfToken()),
	})
	return empty[pb.LanguageServerStartedResponse]()
}

// RecordError logs the start of an error report of the language server.
func (s *service) RecordError(_ context.Context, req *connect.Request[pb.RecordErrorRequest]) (
	*connect.Response[pb.RecordErrorResponse], error) {
	trace := req.Msg.GetErrorTrace()
	hide := redact.New(s.csrf, s.currentToken().Access)
	text := func(value string) string {
		return perigee.Clip(redact.Credentials(hide.Text(perigee.Clip(value, 64<<10))), 1<<10)
	}
	s.opts.Logger.Warn("language server reported an error", "id", text(trace.GetErrorId()), "recovered", trace.GetRecovered(),
		"trace", text(trace.GetStacktrace()))
	return empty[pb.RecordErrorResponse]()
}

// FetchMCPAuthToken fails, because it would need a person to sign in.
func (s *service) FetchMCPAuthToken(context.Context, *connect.Request[pb.FetchMCPAuthTokenRequest]) (
	*connect.Response[pb.FetchMCPAuthTokenResponse], error) {
	return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("there is no window to sign in to an MCP server"))
}

func (s *service) HandleAsyncPostMessage(_ context.Context, req *connect.Request[pb.HandleAsyncPostMessageRequest]) (
	*connect.Response[pb.HandleAsyncPostMessageResponse], error) {
	answer := &pb.HandleAsyncPostMessageResponse{}
	if req.Msg.GetMessageType() == "listTerminals" {
		answer.ResponseContent = `{"terminals":[]}`
	}
	return connect.NewResponse(answer), nil
}

func (s *service) SendTerminalInput(context.Context, *connect.Request[pb.SendTerminalInputRequest]) (
	*connect.Response[pb.SendTerminalInputResponse], error) {
	reason := "headless"
	return connect.NewResponse(&pb.SendTerminalInputResponse{Error: &reason}), nil
}

func (s *service) RunExtensionCode(context.Context, *connect.Request[pb.RunExtensionCodeRequest]) (
	*connect.Response[pb.RunExtensionCodeResponse], error) {
	return connect.NewResponse(&pb.RunExtensionCodeResponse{Output: "not supported"}), nil
}

package extserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"perigee/gen/exa/extension_server_pb/extensionserverpbconnect"
)

// windowMethods are the methods about windows, editors, terminals and sounds of an IDE. There are
// none, so each method succeeds and answers with an empty message.
var windowMethods = []protoreflect.Name{
	"OpenSetting", "OpenFilePointer", "InsertCodeAtCursor", "LogEvent", "ShowTerminal", "OpenVirtualFile", "ReadTerminal",
	"OpenTerminal", "GetLintErrors", "OpenDiffZones", "OpenExternalUrl", "PlaySound", "OpenAntigravityRulesFile",
	"OpenPluginPage", "OpenPluginConfigModal", "OpenConfigurePluginsPage", "OpenConversationWorkspaceQuickPick",
	"FindAllReferences", "GetDefinition", "StartAudioRecording", "EndAudioRecording", "GetCurrentAudioRecording",
	"UpdateCascadeTrajectorySummaries", "UpdateDetailedViewWithCascadeInput", "RestartUserStatusUpdater",
	"ShowConversationPicker", "GetBrowserOnboardingPort", "GetChromeDevtoolsMcpUrl", "FocusIDEWindow",
	"SmartFocusConversation", "IsAgentManagerEnabled", "BroadcastConversationDeletion", "Heartbeat", "ExecuteNotebook",
	"AcknowledgeCascadeCodeEdit",
}

// unary returns the unary methods of the service that do more than succeed, by name. Two of them
// are the unary form of streams.
func (s *service) unary() map[protoreflect.Name]method {
	return map[protoreflect.Name]method{
		"LanguageServerStarted":      typed(s.LanguageServerStarted),
		"RecordError":                typed(s.RecordError),
		"FetchMCPAuthToken":          typed(s.FetchMCPAuthToken),
		"HandleAsyncPostMessage":     typed(s.HandleAsyncPostMessage),
		"SendTerminalInput":          typed(s.SendTerminalInput),
		"RunExtensionCode":           typed(s.RunExtensionCode),
		"CheckTerminalShellSupport":  typed(s.CheckTerminalShellSupport),
		"TerminateCommand":           typed(s.TerminateCommand),
		"WriteCascadeEdit":           typed(s.WriteCascadeEdit),
		"SaveDocument":               typed(s.SaveDocument),
		"GetSecretValue":             typed(s.GetSecretValue),
		"StoreSecretValue":           typed(s.StoreSecretValue),
		"PushUnifiedStateSyncUpdate": typed(s.PushUnifiedStateSyncUpdate),

		"SubscribeToUnifiedStateSyncTopic": typed(s.snapshot),
		"ExecuteCommand":                   typed(s.executeUnary),
	}
}

// handlers returns the handlers of all methods of the protocol by path: streams has those that
// stream their answer, and unary all of them in the unary form. Requests are checked against the
// messages of the protocol.
func (s *service) handlers(options ...connect.HandlerOption) (streams, unary map[string]http.Handler) {
	const (
		subscribe = extensionserverpbconnect.ExtensionServerServiceSubscribeToUnifiedStateSyncTopicProcedure
		execute   = extensionserverpbconnect.ExtensionServerServiceExecuteCommandProcedure
	)
	streams = map[string]http.Handler{
		subscribe: connect.NewServerStreamHandler(subscribe, s.SubscribeToUnifiedStateSyncTopic, options...),
		execute:   connect.NewServerStreamHandler(execute, s.ExecuteCommand, options...),
	}
	unary, methods := map[string]http.Handler{}, s.unary()
	for i := range protocol.Methods().Len() {
		described := protocol.Methods().Get(i)
		path := servicePath + string(described.Name())
		m, ok := methods[described.Name()]
		if !ok {
			m = untyped(described)
		}
		unary[path] = m.handler(path, options...)
	}
	return streams, unary
}

// A method serves a unary method of the protocol.
type method struct {
	request func() protoreflect.Message // an empty one
	serve   func(context.Context, proto.Message) (proto.Message, error)
}

// typed returns the method that a function serves.
func typed[Req, Res proto.Message](serve func(context.Context, Req) (Res, error)) method {
	var none Req
	return method{none.ProtoReflect().New, func(ctx context.Context, request proto.Message) (proto.Message, error) {
		return serve(ctx, request.(Req))
	}}
}

// untyped returns a method that answers with an empty message if it is about windows, and is
// unimplemented otherwise.
func untyped(described protoreflect.MethodDescriptor) method {
	request := func() protoreflect.Message { return dynamicpb.NewMessage(described.Input()) }
	return method{request, func(context.Context, proto.Message) (proto.Message, error) {
		if slices.Contains(windowMethods, described.Name()) {
			return dynamicpb.NewMessage(described.Output()), nil
		}
		return nil, connect.NewError(connect.CodeUnimplemented, fmt.Errorf("%s is not implemented", described.FullName()))
	}}
}

// A message is a request or an answer of any method. All unary methods share one instance of the
// handler of connect with it: the handler would take 25 KB of the program for each pair of types.
type message struct{ proto.Message }

func (m method) handler(path string, options ...connect.HandlerOption) http.Handler {
	serve := func(ctx context.Context, request *connect.Request[message]) (*connect.Response[message], error) {
		answer, err := m.serve(ctx, request.Msg.Message)
		if err != nil {
			return nil, err
		}
		return connect.NewResponse(&message{answer}), nil
	}
	prepare := connect.WithRequestInitializer(func(_ connect.Spec, request any) error {
		request.(*message).Message = m.request().Interface()
		return nil
	})
	return connect.NewUnaryHandler(path, serve, append(slices.Clip(options), prepare)...)
}

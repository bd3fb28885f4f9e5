package extserver

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
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

// windowHandlers returns the handlers of windowMethods, by path. Requests are checked against the
// messages of the protocol.
func windowHandlers(options ...connect.HandlerOption) map[string]http.Handler {
	options = append(options, connect.WithRequestInitializer(func(spec connect.Spec, message any) error {
		*message.(*dynamicpb.Message) = *dynamicpb.NewMessage(spec.Schema.(protoreflect.MethodDescriptor).Input())
		return nil
	}))
	handlers := make(map[string]http.Handler, len(windowMethods))
	for _, name := range windowMethods {
		method := protocol.Methods().ByName(name)
		answer := func(context.Context, *connect.Request[dynamicpb.Message]) (*connect.Response[dynamicpb.Message], error) {
			return connect.NewResponse(dynamicpb.NewMessage(method.Output())), nil
		}
		path := servicePath + string(name)
		handlers[path] = connect.NewUnaryHandler(path, answer, append(options, connect.WithSchema(method))...)
	}
	return handlers
}

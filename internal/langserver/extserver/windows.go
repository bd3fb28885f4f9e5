package extserver

import (
	"context"

	"connectrpc.com/connect"

	pb "perigee/gen/exa/extension_server_pb"
)

// The methods in this file are about windows, editors, terminals and sounds of an IDE. There are
// none, so they succeed and answer with an empty message.

func (s *service) OpenSetting(context.Context, *connect.Request[pb.OpenSettingRequest]) (
	*connect.Response[pb.OpenSettingResponse], error) {
	return empty[pb.OpenSettingResponse]()
}

func (s *service) OpenFilePointer(context.Context, *connect.Request[pb.OpenFilePointerRequest]) (
	*connect.Response[pb.OpenFilePointerResponse], error) {
	return empty[pb.OpenFilePointerResponse]()
}

func (s *service) InsertCodeAtCursor(context.Context, *connect.Request[pb.InsertCodeAtCursorRequest]) (
	*connect.Response[pb.InsertCodeAtCursorResponse], error) {
	return empty[pb.InsertCodeAtCursorResponse]()
}

func (s *service) LogEvent(context.Context, *connect.Request[pb.LogEventRequest]) (
	*connect.Response[pb.LogEventResponse], error) {
	return empty[pb.LogEventResponse]()
}

func (s *service) ShowTerminal(context.Context, *connect.Request[pb.ShowTerminalRequest]) (
	*connect.Response[pb.ShowTerminalResponse], error) {
	return empty[pb.ShowTerminalResponse]()
}

func (s *service) OpenVirtualFile(context.Context, *connect.Request[pb.OpenVirtualFileRequest]) (
	*connect.Response[pb.OpenVirtualFileResponse], error) {
	return empty[pb.OpenVirtualFileResponse]()
}

func (s *service) ReadTerminal(context.Context, *connect.Request[pb.ReadTerminalRequest]) (
	*connect.Response[pb.ReadTerminalResponse], error) {
	return empty[pb.ReadTerminalResponse]()
}

func (s *service) OpenTerminal(context.Context, *connect.Request[pb.OpenTerminalRequest]) (
	*connect.Response[pb.OpenTerminalResponse], error) {
	return empty[pb.OpenTerminalResponse]()
}

func (s *service) GetLintErrors(context.Context, *connect.Request[pb.GetLintErrorsRequest]) (
	*connect.Response[pb.GetLintErrorsResponse], error) {
	return empty[pb.GetLintErrorsResponse]()
}

func (s *service) OpenDiffZones(context.Context, *connect.Request[pb.OpenDiffZonesRequest]) (
	*connect.Response[pb.OpenDiffZonesResponse], error) {
	return empty[pb.OpenDiffZonesResponse]()
}

//lint:ignore ST1003 the protocol calls it so
func (s *service) OpenExternalUrl(context.Context, *connect.Request[pb.OpenExternalUrlRequest]) (
	*connect.Response[pb.OpenExternalUrlResponse], error) {
	return empty[pb.OpenExternalUrlResponse]()
}

func (s *service) PlaySound(context.Context, *connect.Request[pb.PlaySoundRequest]) (
	*connect.Response[pb.PlaySoundResponse], error) {
	return empty[pb.PlaySoundResponse]()
}

func (s *service) OpenAntigravityRulesFile(context.Context, *connect.Request[pb.OpenAntigravityRulesFileRequest]) (
	*connect.Response[pb.OpenAntigravityRulesFileResponse], error) {
	return empty[pb.OpenAntigravityRulesFileResponse]()
}

func (s *service) OpenPluginPage(context.Context, *connect.Request[pb.OpenPluginPageRequest]) (
	*connect.Response[pb.OpenPluginPageResponse], error) {
	return empty[pb.OpenPluginPageResponse]()
}

func (s *service) OpenPluginConfigModal(context.Context, *connect.Request[pb.OpenPluginConfigModalRequest]) (
	*connect.Response[pb.OpenPluginConfigModalResponse], error) {
	return empty[pb.OpenPluginConfigModalResponse]()
}

func (s *service) OpenConfigurePluginsPage(context.Context, *connect.Request[pb.OpenConfigurePluginsPageRequest]) (
	*connect.Response[pb.OpenConfigurePluginsPageResponse], error) {
	return empty[pb.OpenConfigurePluginsPageResponse]()
}

func (s *service) OpenConversationWorkspaceQuickPick(context.Context, *connect.Request[pb.OpenConversationWorkspaceQuickPickRequest]) (
	*connect.Response[pb.OpenConversationWorkspaceQuickPickResponse], error) {
	return empty[pb.OpenConversationWorkspaceQuickPickResponse]()
}

func (s *service) FindAllReferences(context.Context, *connect.Request[pb.FindAllReferencesRequest]) (
	*connect.Response[pb.FindAllReferencesResponse], error) {
	return empty[pb.FindAllReferencesResponse]()
}

func (s *service) GetDefinition(context.Context, *connect.Request[pb.GetDefinitionRequest]) (
	*connect.Response[pb.GetDefinitionResponse], error) {
	return empty[pb.GetDefinitionResponse]()
}

func (s *service) StartAudioRecording(context.Context, *connect.Request[pb.StartAudioRecordingRequest]) (
	*connect.Response[pb.StartAudioRecordingResponse], error) {
	return empty[pb.StartAudioRecordingResponse]()
}

func (s *service) EndAudioRecording(context.Context, *connect.Request[pb.EndAudioRecordingRequest]) (
	*connect.Response[pb.EndAudioRecordingResponse], error) {
	return empty[pb.EndAudioRecordingResponse]()
}

func (s *service) GetCurrentAudioRecording(context.Context, *connect.Request[pb.GetCurrentAudioRecordingRequest]) (
	*connect.Response[pb.GetCurrentAudioRecordingResponse], error) {
	return empty[pb.GetCurrentAudioRecordingResponse]()
}

func (s *service) UpdateCascadeTrajectorySummaries(context.Context, *connect.Request[pb.UpdateCascadeTrajectorySummariesRequest]) (
	*connect.Response[pb.UpdateCascadeTrajectorySummariesResponse], error) {
	return empty[pb.UpdateCascadeTrajectorySummariesResponse]()
}

func (s *service) UpdateDetailedViewWithCascadeInput(context.Context, *connect.Request[pb.UpdateDetailedViewWithCascadeInputRequest]) (
	*connect.Response[pb.UpdateDetailedViewWithCascadeInputResponse], error) {
	return empty[pb.UpdateDetailedViewWithCascadeInputResponse]()
}

func (s *service) RestartUserStatusUpdater(context.Context, *connect.Request[pb.RestartUserStatusUpdaterRequest]) (
	*connect.Response[pb.RestartUserStatusUpdaterResponse], error) {
	return empty[pb.RestartUserStatusUpdaterResponse]()
}

func (s *service) ShowConversationPicker(context.Context, *connect.Request[pb.ConversationPickerRequest]) (
	*connect.Response[pb.ConversationPickerResponse], error) {
	return empty[pb.ConversationPickerResponse]()
}

func (s *service) GetBrowserOnboardingPort(context.Context, *connect.Request[pb.GetBrowserOnboardingPortRequest]) (
	*connect.Response[pb.GetBrowserOnboardingPortResponse], error) {
	return empty[pb.GetBrowserOnboardingPortResponse]()
}

//lint:ignore ST1003 the protocol calls it so
func (s *service) GetChromeDevtoolsMcpUrl(context.Context, *connect.Request[pb.GetChromeDevtoolsMcpUrlRequest]) (
	*connect.Response[pb.GetChromeDevtoolsMcpUrlResponse], error) {
	return empty[pb.GetChromeDevtoolsMcpUrlResponse]()
}

func (s *service) FocusIDEWindow(context.Context, *connect.Request[pb.FocusIDEWindowRequest]) (
	*connect.Response[pb.FocusIDEWindowResponse], error) {
	return empty[pb.FocusIDEWindowResponse]()
}

func (s *service) SmartFocusConversation(context.Context, *connect.Request[pb.SmartFocusConversationRequest]) (
	*connect.Response[pb.SmartFocusConversationResponse], error) {
	return empty[pb.SmartFocusConversationResponse]()
}

func (s *service) IsAgentManagerEnabled(context.Context, *connect.Request[pb.IsAgentManagerEnabledRequest]) (
	*connect.Response[pb.IsAgentManagerEnabledResponse], error) {
	return empty[pb.IsAgentManagerEnabledResponse]()
}

func (s *service) BroadcastConversationDeletion(context.Context, *connect.Request[pb.BroadcastConversationDeletionRequest]) (
	*connect.Response[pb.BroadcastConversationDeletionResponse], error) {
	return empty[pb.BroadcastConversationDeletionResponse]()
}

func (s *service) Heartbeat(context.Context, *connect.Request[pb.HeartbeatRequest]) (
	*connect.Response[pb.HeartbeatResponse], error) {
	return empty[pb.HeartbeatResponse]()
}

func (s *service) ExecuteNotebook(context.Context, *connect.Request[pb.ExecuteNotebookRequest]) (
	*connect.Response[pb.ExecuteNotebookResponse], error) {
	return empty[pb.ExecuteNotebookResponse]()
}

func (s *service) AcknowledgeCascadeCodeEdit(context.Context, *connect.Request[pb.AcknowledgeCascadeCodeEditRequest]) (
	*connect.Response[pb.AcknowledgeCascadeCodeEditResponse], error) {
	return empty[pb.AcknowledgeCascadeCodeEditResponse]()
}

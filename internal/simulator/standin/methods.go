package standin

import (
	"context"
	"net/http"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"perigee/gen/exa/language_server_pb/languageserverpbconnect"
)

const servicePath = "/" + languageserverpbconnect.LanguageServerServiceName + "/"

// handle registers the methods of the protocol. Other methods are not found.
func (s *service) handle(mux *http.ServeMux, options ...connect.HandlerOption) {
	unary := map[string]func(path string, options ...connect.HandlerOption) http.Handler{
		"Heartbeat":                             method(s.Heartbeat),
		"GetUserStatus":                         method(s.GetUserStatus),
		"GetCascadeModelConfigs":                method(s.GetCascadeModelConfigs),
		"Exit":                                  method(s.Exit),
		"SimulateSegFault":                      method(s.SimulateSegFault),
		"ReconnectExtensionServer":              method(s.ReconnectExtensionServer),
		"SetCloudCodeURL":                       method(s.SetCloudCodeURL),
		"StartCascade":                          method(s.StartCascade),
		"SendUserCascadeMessage":                method(s.SendUserCascadeMessage),
		"SendAllQueuedMessages":                 method(s.SendAllQueuedMessages),
		"CancelCascadeInvocation":               method(s.CancelCascadeInvocation),
		"GetCascadeTrajectory":                  method(s.GetCascadeTrajectory),
		"GetCascadeTrajectorySteps":             method(s.GetCascadeTrajectorySteps),
		"GetCascadeTrajectoryGeneratorMetadata": method(s.GetCascadeTrajectoryGeneratorMetadata),
		"GetAllCascadeTrajectories":             method(s.GetAllCascadeTrajectories),
		"HandleCascadeUserInteraction":          method(s.HandleCascadeUserInteraction),
		"DeleteCascadeTrajectory":               method(s.DeleteCascadeTrajectory),
		"RevertToCascadeStep":                   method(s.RevertToCascadeStep),
		"UpdateConversationAnnotations":         method(s.UpdateConversationAnnotations),
		"LoadTrajectory":                        method(s.LoadTrajectory),
		"AddTrackedWorkspace":                   method(s.AddTrackedWorkspace),
		"SetWorkingDirectories":                 method(s.SetWorkingDirectories),
		"GetWorkspaceInfos":                     method(s.GetWorkspaceInfos),
		"GetModelResponse":                      method(s.GetModelResponse),
	}
	for name, handler := range unary {
		mux.Handle(servicePath+name, handler(servicePath+name, options...))
	}
	const updates = languageserverpbconnect.LanguageServerServiceStreamAgentStateUpdatesProcedure
	mux.Handle(updates, connect.NewServerStreamHandler(updates, s.StreamAgentStateUpdates, options...))
}

// An anyMessage is a request or an answer of any method. All methods share one instance of the code
// of connect with it, which would take 25 KB of the program for each pair of types.
type anyMessage struct{ proto.Message }

// fill returns a function that makes an anyMessage an empty one of a type, for connect to decode.
func fill[T proto.Message]() func(connect.Spec, any) error {
	var none T
	return func(_ connect.Spec, into any) error {
		into.(*anyMessage).Message = none.ProtoReflect().New().Interface()
		return nil
	}
}

// method returns a function that makes the handler of a unary method.
func method[Req, Res proto.Message](serve func(context.Context, Req) (Res, error)) func(string, ...connect.HandlerOption) http.Handler {
	return func(path string, options ...connect.HandlerOption) http.Handler {
		untyped := func(ctx context.Context, request *connect.Request[anyMessage]) (*connect.Response[anyMessage], error) {
			answer, err := serve(ctx, request.Msg.Message.(Req))
			if err != nil {
				return nil, err
			}
			return connect.NewResponse(&anyMessage{answer}), nil
		}
		return connect.NewUnaryHandler(path, untyped, append(slices.Clip(options), connect.WithRequestInitializer(fill[Req]()))...)
	}
}

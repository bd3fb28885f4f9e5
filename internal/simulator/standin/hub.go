package standin

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	cortexpb "perigee/gen/exa/cortex_pb"
)

// The hub has methods and members with unpublished numbers. They exist in JSON only.

// jsonMethod serves a method of the hub. Unknown members are refused.
func jsonMethod[Req any](serve func(r *http.Request, request Req) (answer any, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if contentType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); contentType != "application/json" {
			w.WriteHeader(http.StatusUnsupportedMediaType)
			return
		}
		var request Req
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
		decoder.DisallowUnknownFields()
		var answer any
		err := decoder.Decode(&request)
		if err != nil {
			err = connect.NewError(connect.CodeInvalidArgument, err)
		} else {
			answer, err = serve(r, request)
		}
		if err != nil {
			_ = connect.NewErrorWriter().Write(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}
}

type availableModelsRequest struct {
	ForceRefresh bool `json:"forceRefresh"`
}

// availableModels lists the models by the ids of the cloud.
func (s *service) availableModels(r *http.Request, _ availableModelsRequest) (any, error) {
	if _, err := s.p.tokens.bearer(r.Context()); err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, err)
	}
	type entry struct {
		Model       string `json:"model"`
		DisplayName string `json:"displayName"`
	}
	models, first := map[string]entry{}, ""
	for _, model := range s.p.cloud.known() {
		models[model.ID] = entry{enumName(model.Enum), model.DisplayName}
		if first == "" || strings.Contains(model.ID, "flash") && !strings.Contains(first, "flash") {
			first = model.ID
		}
	}
	return map[string]any{"response": map[string]any{"models": models, "defaultAgentModelId": first}}, nil
}

type fullyIdleRequest struct {
	ConversationID        string  `json:"conversationId"`
	InactivityTimeout     float64 `json:"inactivityTimeoutSeconds"`
	Stabilization         float64 `json:"stabilizationDurationSeconds"`
	ReturnOnExecutorError bool    `json:"returnOnExecutorError"`
}

// waitFullyIdle waits until a conversation has been idle for some time, or until nothing happened
// in it for too long.
func (s *service) waitFullyIdle(r *http.Request, request fullyIdleRequest) (any, error) {
	k, err := s.find(request.ConversationID)
	if err != nil {
		return nil, err
	}
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	var idleSince time.Time
	for {
		k.all.mu.Lock()
		busy, modified, failed := k.busy, k.modified, false
		if n := len(k.executors); n > 0 && !busy {
			failed = k.executors[n-1].TerminationReason == cortexpb.ExecutorTerminationReason_EXECUTOR_TERMINATION_REASON_ERROR
		}
		k.all.mu.Unlock()
		if busy {
			idleSince = time.Time{}
		} else if idleSince.IsZero() {
			idleSince = time.Now()
		}
		switch {
		case !busy && (failed && request.ReturnOnExecutorError || time.Since(idleSince) >= seconds(request.Stabilization)):
			return struct{}{}, nil
		case request.InactivityTimeout > 0 && busy && time.Since(modified) > seconds(request.InactivityTimeout):
			return map[string]bool{"timedOut": true}, nil
		case !sleep(r.Context(), 10*time.Millisecond):
			return nil, connect.NewError(connect.CodeCanceled, r.Context().Err())
		}
	}
}

// takeProject removes the project from a request to start a conversation, and checks it.
func takeProject(text []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil || members["projectEnvConfig"] == nil {
		return text, nil // the codec of the message checks it
	}
	var project struct {
		ID          string    `json:"projectId"`
		Environment *struct{} `json:"defaultProjectEnvironment"`
	}
	switch err := json.Unmarshal(members["projectEnvConfig"], &project); {
	case err != nil:
		return nil, err
	case project.ID == "":
		return nil, errors.New("project_id is required when providing project_env_config")
	case members["workspaceUris"] != nil:
		return nil, errors.New("cannot specify both workspace URIs and project environment config")
	}
	delete(members, "projectEnvConfig")
	return json.Marshal(members)
}

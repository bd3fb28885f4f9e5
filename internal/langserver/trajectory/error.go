package trajectory

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"perigee"
	cortexpb "perigee/gen/exa/cortex_pb"
	geminicoder "perigee/gen/gemini_coder"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/redact"
)

// failureOf returns the error of a step that concerns the turn, or nil if there is none. Errors of
// tools are results, which the model reads.
func failureOf(s *geminicoder.Step) *cortexpb.CortexErrorDetails {
	details := s.GetErrorMessage().GetError()
	if details == nil && s.GetPlannerResponse() != nil {
		details = s.GetError()
	}
	if details.GetIsBenign() || errorText(details) == "" && details.GetErrorCode() == 0 {
		return nil
	}
	return details
}

// errorText returns the text of an error for people.
func errorText(e *cortexpb.CortexErrorDetails) string {
	return cmp.Or(e.GetUserErrorMessage(), e.GetShortError(), e.GetFullError(), e.GetModelErrorMessage(), e.GetDetails(),
		strings.Join(e.GetRpcErrorDetails(), "\n"))
}

func hashError(e *cortexpb.CortexErrorDetails) uint64 {
	return hashOf(strconv.Itoa(int(e.GetErrorCode())) + "\x00" + errorText(e) + "\x00" + e.GetErrorId())
}

// rpcStatus maps google.rpc codes to HTTP statuses, for servers that use these as the code of an
// error.
var rpcStatus = map[uint32]int{
	1: 499, 3: http.StatusBadRequest, 4: http.StatusGatewayTimeout, 5: http.StatusNotFound, 7: http.StatusForbidden,
	8: http.StatusTooManyRequests, 9: http.StatusBadRequest, 12: http.StatusNotImplemented, 13: http.StatusInternalServerError,
	14: http.StatusServiceUnavailable, 16: http.StatusUnauthorized,
}

// classify converts an error of a step to one with a class. All of its texts are evidence; the
// message has the text for people.
func classify(e *cortexpb.CortexErrorDetails, now time.Time) *perigee.Error {
	evidence := strings.Join([]string{e.GetUserErrorMessage(), e.GetShortError(), e.GetFullError(), e.GetDetails(),
		e.GetModelErrorMessage()}, "\n")
	status := int(e.GetErrorCode())
	if status < 400 || status > 599 {
		status = rpcStatus[e.GetErrorCode()]
	}
	var details []json.RawMessage
	for _, text := range e.GetRpcErrorDetails() {
		if json.Valid([]byte(text)) {
			details = append(details, json.RawMessage(text))
		} else {
			evidence += "\n" + text
		}
	}
	diagnosis, _ := providererr.FromText(status, evidence, details, now)
	found := *diagnosis.Error
	found.Message = redact.Emails(errorText(e))
	return &found
}

package trajectory

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"perigee"
	cortexpb "perigee/gen/exa/cortex_pb"
	geminicoder "perigee/gen/gemini_coder"
	"perigee/internal/adapt/providererr"
)

// failureOf is the error of a step that concerns the turn; nil: there is none. Errors of tools are results, which the model reads.
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

// errorText is the error as a person should read it.
func errorText(e *cortexpb.CortexErrorDetails) string {
	return cmp.Or(e.GetUserErrorMessage(), e.GetShortError(), e.GetFullError(), e.GetModelErrorMessage(), e.GetDetails(),
		strings.Join(e.GetRpcErrorDetails(), "\n"))
}

func hashError(e *cortexpb.CortexErrorDetails) uint64 {
	return hashOf(strconv.Itoa(int(e.GetErrorCode())) + "\x00" + errorText(e) + "\x00" + e.GetErrorId())
}

// spokenStatus finds an HTTP status in a text: "code 429", "HTTP 503", "status: 403".
var spokenStatus = regexp.MustCompile(`(?i)\b(?:code|status|http(?:/\d(?:\.\d)?)?|error)[ :=(]{1,3}(4\d\d|5\d\d)\b`)

// refusedVersion finds the refusal of a version of the product, which often has no status.
var refusedVersion = regexp.MustCompile(`(?i)\bversion\b.{0,60}\b(?:no longer supported|out of date)\b`)

// rpcStatus are the HTTP statuses of google.rpc codes, for servers that give these as the code of an error.
var rpcStatus = map[uint32]int{
	1: 499, 3: http.StatusBadRequest, 4: http.StatusGatewayTimeout, 5: http.StatusNotFound, 7: http.StatusForbidden,
	8: http.StatusTooManyRequests, 9: http.StatusBadRequest, 12: http.StatusNotImplemented, 13: http.StatusInternalServerError,
	14: http.StatusServiceUnavailable, 16: http.StatusUnauthorized,
}

// classify turns an error of a step into one with a class. All of its texts are evidence; the message has the text for people.
func classify(e *cortexpb.CortexErrorDetails, now time.Time) *perigee.Error {
	evidence := strings.Join([]string{e.GetUserErrorMessage(), e.GetShortError(), e.GetFullError(), e.GetDetails(),
		e.GetModelErrorMessage()}, "\n")
	status := int(e.GetErrorCode())
	if status < 400 || status > 599 {
		status = rpcStatus[e.GetErrorCode()]
	}
	if found := spokenStatus.FindStringSubmatch(evidence); status == 0 && found != nil {
		status, _ = strconv.Atoi(found[1])
	}
	var details []json.RawMessage
	for _, text := range e.GetRpcErrorDetails() {
		if json.Valid([]byte(text)) {
			details = append(details, json.RawMessage(text))
		} else {
			evidence += "\n" + text
		}
	}
	body, err := json.Marshal(map[string]any{"error": map[string]any{"code": status, "message": evidence, "details": details}})
	if err != nil {
		body = []byte(evidence)
	}
	diagnosis := providererr.Classify(status, nil, body, now)
	if refusedVersion.MatchString(evidence) {
		diagnosis = providererr.New(providererr.KindVersion, "", 0, now)
	}
	found := *diagnosis.Error
	found.Message = providererr.WithoutAddresses(errorText(e))
	return &found
}

package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"perigee/internal/simulator/rules"
)

// The domain that the provider writes into its ErrorInfo details.
const (
	privateDomain = "cloudcode-pa.googleapis.com"
	publicDomain  = "googleapis.com"
)

// statusError is one refusal in the shape of google.rpc.Status, ready to be written.
type statusError struct {
	HTTP    int
	Code    string // the gRPC name: INVALID_ARGUMENT, RESOURCE_EXHAUSTED, …
	Message string
	Details []any
	// Rule names the check that refused, for the call log; it is never sent.
	Rule string
	// For the errors of other wires: the time to wait, and the message that a fault asks for.
	Delay  time.Duration
	Custom string
}

// errorBody is the part of it that is sent, in the provider's order of fields.
type errorBody struct {
	Error struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Status  string `json:"status"`
		Details []any  `json:"details,omitempty"`
	} `json:"error"`
}

func (e *statusError) body() errorBody {
	var b errorBody
	b.Error.Code, b.Error.Message, b.Error.Status, b.Error.Details = e.HTTP, e.Message, e.Code, e.Details
	return b
}

func fromRefusal(refusal *rules.Refusal) *statusError {
	if refusal == nil {
		return nil
	}
	return &statusError{HTTP: refusal.Status, Code: refusal.Code, Message: refusal.Message,
		Details: refusal.Details, Rule: refusal.Rule}
}

func refuse(status int, code, rule, format string, args ...any) *statusError {
	return &statusError{HTTP: status, Code: code, Rule: rule, Message: fmt.Sprintf(format, args...)}
}

func invalid(rule, format string, args ...any) *statusError {
	return refuse(http.StatusBadRequest, "INVALID_ARGUMENT", rule, format, args...)
}

func notFound(rule string) *statusError {
	return refuse(http.StatusNotFound, "NOT_FOUND", rule, "Requested entity was not found.")
}

func unauthenticated(rule string) *statusError {
	return refuse(http.StatusUnauthorized, "UNAUTHENTICATED", rule,
		"Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.")
}

func forbidden(rule string) *statusError {
	return refuse(http.StatusForbidden, "PERMISSION_DENIED", rule, "The caller does not have permission")
}

func banned() *statusError {
	e := refuse(http.StatusForbidden, "PERMISSION_DENIED", "account.banned",
		"This service has been disabled in this account for violation of Terms of Service.")
	e.Details = []any{errorInfo("ACCOUNT_DISABLED", privateDomain, nil)}
	return e
}

func validationRequired() *statusError {
	const link = "https://accounts.google.com/signin/continue?sarp=1&scc=1&continue=https://developers.google.com/gemini-code-assist/auth/auth_success_gemini"
	e := refuse(http.StatusForbidden, "PERMISSION_DENIED", "account.validation", "Verify your account to continue.")
	e.Details = []any{
		errorInfo("VALIDATION_REQUIRED", privateDomain, map[string]string{"validation_url": link}),
		map[string]any{"@type": "type.googleapis.com/google.rpc.Help",
			"links": []any{map[string]string{"description": "Verify your account", "url": link}}},
	}
	return e
}

func serviceDisabled(project string) *statusError {
	e := refuse(http.StatusForbidden, "PERMISSION_DENIED", "header.user_project",
		"Cloud Code Private API has not been used in project %s before or it is disabled.", project)
	e.Details = []any{errorInfo("SERVICE_DISABLED", publicDomain,
		map[string]string{"service": privateDomain, "consumer": "projects/" + project})}
	return e
}

func generateChatDenied(project string) *statusError {
	return refuse(http.StatusForbidden, "PERMISSION_DENIED", "project.denied",
		"Permission 'cloudaicompanion.companions.generateChat' denied on resource '//cloudaicompanion.googleapis.com/projects/%s/locations/global' (or it may not exist).", project)
}

func errorInfo(reason, domain string, metadata map[string]string) map[string]any {
	info := map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": domain}
	if len(metadata) > 0 {
		info["metadata"] = metadata
	}
	return info
}

// exhausted returns a 429 with three consistent forms of the delay: the message is cut to whole
// seconds, retryDelay and quotaResetDelay are exact, and the time stamp is now plus the delay.
func exhausted(reason, model string, now time.Time, delay time.Duration, rule string) *statusError {
	e := refuse(http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", rule,
		"You have exhausted your capacity on this model. Your quota will reset after %s.", wholeSeconds(delay))
	e.Details = []any{
		errorInfo(reason, privateDomain, map[string]string{
			"model":               model,
			"quotaResetDelay":     delay.String(),
			"quotaResetTimeStamp": now.Add(delay).UTC().Format(time.RFC3339Nano),
			"uiMessage":           "true",
		}),
		retryInfo(delay),
	}
	return e
}

// officialExhausted returns the 429 of the official API, which names the quota instead of a reset
// time.
func officialExhausted(model, period string, delay time.Duration) *statusError {
	e := refuse(http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", "",
		"You exceeded your current quota, please check your plan and billing details. Please retry in %s.", delay)
	e.Details = []any{
		map[string]any{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []any{map[string]any{
			"quotaMetric":     "generativelanguage.googleapis.com/generate_content_free_tier_requests",
			"quotaId":         "GenerateRequests" + period + "PerProjectPerModel-FreeTier",
			"quotaDimensions": map[string]string{"location": "global", "model": model},
			"quotaValue":      "10",
		}}},
		map[string]any{"@type": "type.googleapis.com/google.rpc.Help", "links": []any{map[string]string{
			"description": "Learn more about Gemini API quotas", "url": "https://ai.google.dev/gemini-api/docs/rate-limits"}}},
		retryInfo(delay),
	}
	return e
}

func retryInfo(delay time.Duration) map[string]any {
	return map[string]any{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": protoSeconds(delay)}
}

func bareExhausted(rule string) *statusError {
	return refuse(http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", rule, "Resource has been exhausted (e.g. check quota).")
}

func insufficientCredits(model string) *statusError {
	e := refuse(http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", "quota.credits", "Resource has been exhausted (e.g. check quota).")
	e.Details = []any{errorInfo("INSUFFICIENT_G1_CREDITS_BALANCE", privateDomain, map[string]string{"model": model})}
	return e
}

func noCapacity(status int, code, model, rule string) *statusError {
	e := refuse(status, code, rule, "No capacity available for model %s on the server", model)
	e.Details = []any{errorInfo("MODEL_CAPACITY_EXHAUSTED", privateDomain, map[string]string{"model": model})}
	return e
}

// wholeSeconds writes a duration as the provider's messages do: 479ms is "0s", 1h16m0.6s is
// "1h16m0s".
func wholeSeconds(d time.Duration) string { return d.Truncate(time.Second).String() }

// protoSeconds writes a duration as proto-JSON does: decimal seconds with an s.
func protoSeconds(d time.Duration) string {
	seconds, nanos := d/time.Second, d%time.Second
	if nanos == 0 {
		return strconv.FormatInt(int64(seconds), 10) + "s"
	}
	return fmt.Sprintf("%d.%ss", seconds, strings.TrimRight(fmt.Sprintf("%09d", nanos), "0"))
}

// encode is json.Marshal without HTML escaping, because the provider does not escape < and &.
func encode(v any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic("simulator: " + err.Error()) // only our own values come here
	}
	return bytes.TrimRight(buffer.Bytes(), "\n")
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	w.Write(append(encode(v), '\n'))
}

func (x *exchange) writeError(e *statusError) {
	x.call.Rule = e.Rule
	if x.wire != nil {
		x.wire.problem(x, e).write(x.w)
		return
	}
	writeJSON(x.w, e.HTTP, e.body())
}

// writeNotFoundPage answers a path that no service has: with HTML, not JSON.
func writeNotFoundPage(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=UTF-8")
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprint(w, "<!DOCTYPE html>\n<html lang=en>\n<title>Error 404 (Not Found)</title>\n<p><b>404.</b> That’s an error.\n"+
		"<p>The requested URL was not found on this server. That’s all we know.\n</html>\n")
}

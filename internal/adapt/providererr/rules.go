package providererr

import (
	"slices"
	"strings"
	"time"
)

// A rule is one row of the table. It matches when each of its fields does; within a field any of
// the values will do, and an empty field always matches.
type rule struct {
	name     string
	status   []int    // HTTP statuses; 4 and 5 match all of 4xx and 5xx
	reasons  []string // reason of an ErrorInfo among the details
	oauth    []string // OAuth error codes; "*" is any
	texts    []string // parts of the normalized message; … matches at most maxGap bytes
	leads    bool     // a 400 must begin with one of texts; later it may quote the client
	html     bool     // the body is a page
	over     time.Duration
	under    time.Duration // the provider's delay is at least over, or less than under
	inAnswer bool          // also when an answer with status 200 starts with one of texts
	kind     Kind
}

// longDelay separates a rate limit from a quota window that is used up. The provider gives the
// reason of the former in both cases.
const longDelay = 5 * time.Minute

var (
	badRequest   = []int{400, 413, 422}
	refusedToken = []int{400, 401, 403}

	// The provider's sentence on any limit of an account mentions capacity, although capacity is
	// not the cause.
	quotaTexts = []string{"exhausted your capacity", "quota exhausted", "quota_exhausted", "exceeded your current quota", "quota will reset"}
)

// rules are tried from the top; the first that matches decides. The order goes from explicit
// information to guesses:
//
//  1. reasons of the details, which are meant for programs: first reasons about the account, as
//     nothing else matters to an account that is locked, then limits;
//  2. codes of the sign-in server;
//  3. sentences about client, account and project;
//  4. sentences about the request: those that name a field come first, as field names can
//     contain any word, and thinking before tools, because sentences on the order of thinking
//     mention tool calls too;
//  5. sentences on limits;
//  6. the status alone.
var rules = []rule{
	{name: "reason: validation", reasons: []string{"VALIDATION_REQUIRED"}, kind: KindVerification},
	{name: "reason: banned", reasons: []string{"TOS_VIOLATION", "ACCOUNT_DISABLED", "USER_DISABLED"}, kind: KindBan},
	{name: "reason: client", reasons: []string{"UNSUPPORTED_CLIENT"}, kind: KindIdentity},
	{name: "reason: project", reasons: []string{"SERVICE_DISABLED", "CONSUMER_INVALID", "USER_PROJECT_DENIED"}, kind: KindProject},
	{name: "reason: key", reasons: []string{"API_KEY_INVALID", "API_KEY_EXPIRED"}, kind: KindUnauthenticated},
	{name: "reason: scope", reasons: []string{"ACCESS_TOKEN_SCOPE_INSUFFICIENT"}, kind: KindSignedOut},
	{name: "reason: capacity", reasons: []string{"MODEL_CAPACITY_EXHAUSTED"}, kind: KindCapacity},
	{name: "reason: credits", reasons: []string{"INSUFFICIENT_G1_CREDITS_BALANCE"}, kind: KindCredits},
	{name: "reason: quota", reasons: []string{"QUOTA_EXHAUSTED"}, kind: KindQuota},
	{name: "reason: rate, long", reasons: []string{"RATE_LIMIT_EXCEEDED"}, over: longDelay, kind: KindQuota},
	{name: "reason: rate", reasons: []string{"RATE_LIMIT_EXCEEDED"}, kind: KindRate},

	// A refresh token belongs to the OAuth client that it was issued to; with another it is
	// unauthorized_client.
	{name: "oauth: signed out", oauth: []string{"invalid_grant", "token_revoked"}, status: refusedToken, kind: KindSignedOut},
	{name: "oauth: access token", oauth: []string{"invalid_token"}, status: refusedToken, kind: KindUnauthenticated},
	{name: "oauth: trouble", oauth: []string{"temporarily_unavailable", "server_error", "internal_failure"}, kind: KindUnavailable},
	{name: "oauth: client", oauth: []string{"*"}, status: refusedToken, kind: KindOAuthClient},
	{name: "text: signed out", status: refusedToken, leads: true, kind: KindSignedOut, texts: []string{
		"token has been expired or revoked", "token has been revoked", "token revoked", "credentials are invalid"}},

	{name: "text: version", inAnswer: true, status: []int{4, 5}, kind: KindVersion, texts: []string{
		"this version of antigravity is no longer supported", "your current version of antigravity is out of date"}},
	{name: "text: client", status: []int{4}, kind: KindIdentity, texts: []string{"this client is no longer supported"}},
	{name: "text: validation", status: []int{403}, texts: []string{"verify your account"}, kind: KindVerification},
	{name: "text: banned", status: []int{403}, kind: KindBan, texts: []string{
		"disabled … violation of … terms of service", "account has been disabled", "account has been suspended"}},
	{name: "text: ineligible", status: []int{403}, kind: KindIneligible, texts: []string{
		"not eligible for", "account is ineligible", "lack a gemini code assist license"}},
	{name: "text: project", status: []int{400, 403}, leads: true, kind: KindProject, texts: []string{
		"permission cloudaicompanion. … denied on resource", "has not been used in project", "invalid project resource name"}},
	{name: "text: scope", status: []int{403}, texts: []string{"insufficient authentication scopes"}, kind: KindSignedOut},
	{name: "text: location", status: []int{400, 403}, kind: KindLocation, texts: []string{
		"user location is not supported", "not currently available in your location"}},

	{name: "request: schema", status: badRequest, kind: KindSchemaKeyword, texts: []string{
		"function_declarations[ … ].parameters", "tools. … .input_schema", "json schema is invalid", "too many states for serving"}},
	{name: "request: field", status: badRequest, kind: KindUnknownField, texts: []string{
		"unknown name … cannot find field", "extra inputs are not permitted"}},
	{name: "request: length", status: badRequest, kind: KindPromptTooLong, texts: []string{
		"prompt is too long", "prompt_too_long", "context length exceeded", "context_length_exceeded", "exceeds the maximum context",
		"input token count … exceeds the maximum", "exceed context limit"}},
	{name: "request: size", status: badRequest, texts: []string{"payload size exceeds", "request_too_large"}, kind: KindTooLarge},
	{name: "request: thinking off", status: badRequest, texts: []string{"thinking is disabled … cannot contain"}, kind: KindThinkingDisabled},
	{name: "request: signature", status: badRequest, kind: KindBadSignature, texts: []string{
		"invalid signature in thinking", "thinking.signature … field required", "thinking.thinking … field required",
		"thinking … cannot be modified", "must remain as they were in the original response",
		"corrupted thought signature", "thought signature is not valid", "thought_signature"}},
	{name: "request: thinking order", status: badRequest, kind: KindThinkingOrder, texts: []string{
		"expected thinking … found", "expected … but found thinking", "must be thinking", "must start with a thinking block",
		"thinking … first block", "first block … thinking", "thinking … preceding", "thinking … preceeding"}},
	{name: "request: tools", status: badRequest, kind: KindToolPairing, texts: []string{
		"tool_use … tool_result", "tool_result … tool_use", "tool_use ids must be unique",
		"number of function response parts", "function response turn comes", "function call turn comes",
		"function response parts are in a turn", "function call … has a function response with the same"}},
	{name: "request: prefill", status: badRequest, kind: KindPrefill, texts: []string{
		"does not support assistant message prefill", "conversation must end with a user message"}},
	{name: "request: empty", status: badRequest, kind: KindEmptyContent, texts: []string{
		"text content blocks must be non-empty", "must contain non-whitespace text", "must have one initialized field",
		"parts must not be empty", "contents is not specified"}},
	{name: "request: budget", status: badRequest, kind: KindThinkingBudget, texts: []string{
		"thinking_budget", "budget_tokens", "thinking budget", "thinking level", "budget … thinking mode",
		"maximum allowed number of output tokens"}},

	{name: "limit: quota, short", status: []int{429}, texts: quotaTexts, under: longDelay, kind: KindRate},
	{name: "limit: quota", status: []int{429}, texts: quotaTexts, kind: KindQuota},
	{name: "limit: capacity", status: []int{429, 500, 503, 529}, kind: KindCapacity, texts: []string{
		"no capacity", "overloaded", "high demand"}},
	{name: "limit: rate", status: []int{429}, kind: KindRate, texts: []string{
		"per minute", "rate limit", "rate_limit", "too many requests"}},
	{name: "limit: long delay", status: []int{429}, over: longDelay, kind: KindQuota},
	{name: "limit: short delay", status: []int{429}, under: longDelay, kind: KindRate},

	{name: "status: 429", status: []int{429}, kind: KindUnexplained},
	{name: "status: 401", status: []int{401}, kind: KindUnauthenticated},
	{name: "status: 402, 403", status: []int{402, 403}, kind: KindForbidden},
	{name: "status: 404 page", status: []int{404}, html: true, kind: KindEndpoint},
	{name: "status: 405", status: []int{405}, kind: KindEndpoint},
	{name: "status: 404", status: []int{404, 410}, kind: KindNotFound},
	{name: "status: 413", status: []int{413}, kind: KindTooLarge},
	{name: "status: 501", status: []int{501}, kind: KindUnimplemented},
	{name: "status: 529", status: []int{529}, kind: KindCapacity},
	{name: "status: 408, 499, 5xx", status: []int{408, 499, 5}, kind: KindUnavailable},
	{name: "status: 4xx", status: []int{4}, kind: KindBadRequest},
	{name: "anything", kind: KindOther},
}

func (r *rule) matches(e *evidence) bool {
	return r.hasStatus(e.status) &&
		(len(r.reasons) == 0 || slices.ContainsFunc(e.reasons, func(s string) bool { return slices.Contains(r.reasons, s) })) &&
		(len(r.oauth) == 0 || e.oauth != "" && (r.oauth[0] == "*" || slices.Contains(r.oauth, e.oauth))) &&
		(len(r.texts) == 0 || slices.ContainsFunc(r.texts, func(pattern string) bool { return contains(e.text, pattern) })) &&
		(!r.leads || e.status != 400 || e.begins(r.texts)) &&
		(!r.html || e.html) &&
		(r.over == 0 || e.delayNamed && e.delay >= r.over) &&
		(r.under == 0 || e.delayNamed && e.delay < r.under)
}

func (r *rule) hasStatus(status int) bool {
	return len(r.status) == 0 || slices.Contains(r.status, status) || slices.Contains(r.status, status/100)
}

// maxGap is how many bytes a … can match. Without a limit any two words of a long message would
// match.
const maxGap = 160

// contains reports whether text has the pieces of pattern, separated by …, in this order and at
// most maxGap apart.
func contains(text, pattern string) bool {
	first, rest, more := strings.Cut(pattern, " … ")
	for {
		i := strings.Index(text, first)
		if i < 0 {
			return false
		}
		text = text[i+len(first):]
		if !more || contains(text[:min(len(text), maxGap)], rest) {
			return true
		}
	}
}

// begins reports whether the provider's own message begins with one of the patterns. Quoted text is
// not its own.
func (e *evidence) begins(patterns []string) bool {
	if e.quoted || strings.IndexAny(e.message, "`'\"") == 0 {
		return false
	}
	return slices.ContainsFunc(patterns, func(p string) bool {
		first, _, _ := strings.Cut(p, " … ")
		return strings.HasPrefix(e.text, first)
	})
}

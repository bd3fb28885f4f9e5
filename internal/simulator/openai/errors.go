package openai

import (
	"fmt"
	"strings"
	"time"
)

const invalidRequest = "invalid_request_error"

// Error is an error before a profile gives it its form.
type Error struct {
	Status  int
	Message string
	Type    string
	Param   string // null if empty
	Code    string // null if empty
	Rule    string // of the call log; never sent
	// RetryAfter is the value of the retry-after header, or 0 for none.
	RetryAfter time.Duration
	// Prompt and Context are the tokens of a prompt that is too long, and of the model.
	Prompt, Context int
}

func (e *Error) Error() string { return e.Message }

func missing(path string) *Error {
	return &Error{Status: 400, Type: invalidRequest, Param: path, Code: "missing_required_parameter", Rule: "missing_required_parameter",
		Message: fmt.Sprintf("Missing required parameter: '%s'.", path)}
}

func invalidType(path, want string, got any) *Error {
	return &Error{Status: 400, Type: invalidRequest, Param: path, Code: "invalid_type", Rule: "invalid_type",
		Message: fmt.Sprintf("Invalid type for '%s': expected %s, but got %s instead.", path, want, kindOf(got))}
}

func invalidValue(path, got string, values ...string) *Error {
	return &Error{Status: 400, Type: invalidRequest, Param: path, Code: "invalid_value", Rule: "invalid_value",
		Message: fmt.Sprintf("Invalid value: '%s'. Supported values are: %s.", got, list(values))}
}

// list writes 'a', 'b', and 'c'.
func list(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = "'" + v + "'"
	}
	switch n := len(quoted); n {
	case 0, 1:
		return strings.Join(quoted, "")
	case 2:
		return quoted[0] + " and " + quoted[1]
	default:
		return strings.Join(quoted[:n-1], ", ") + ", and " + quoted[n-1]
	}
}

// badValue is an objection of the form "Invalid 'PATH': REASON".
func badValue(path, code, format string, args ...any) *Error {
	return &Error{Status: 400, Type: invalidRequest, Param: path, Code: code, Rule: code,
		Message: fmt.Sprintf("Invalid '%s': ", path) + fmt.Sprintf(format, args...)}
}

// objection is an error 400 without a code.
func objection(rule, param, format string, args ...any) *Error {
	return &Error{Status: 400, Type: invalidRequest, Param: param, Rule: rule, Message: fmt.Sprintf(format, args...)}
}

func unsupported(param, code, format string, args ...any) *Error {
	return &Error{Status: 400, Type: invalidRequest, Param: param, Code: code, Rule: code, Message: fmt.Sprintf(format, args...)}
}

func noModel(name string) *Error {
	return &Error{Status: 404, Type: invalidRequest, Code: "model_not_found", Rule: "model_not_found",
		Message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", name)}
}

// NoRoute is the error of a path that the API does not have.
func NoRoute(method, path string) *Error {
	return &Error{Status: 404, Type: invalidRequest, Rule: "route.unknown", Message: fmt.Sprintf("Invalid URL (%s %s)", method, path)}
}

// NoMethod is the error of a path that has another method.
func NoMethod(method string) *Error {
	return &Error{Status: 405, Type: invalidRequest, Rule: "route.method", Code: "method_not_supported", Message: fmt.Sprintf("Not allowed to %s on this URL.", method)}
}

// NoKey is the error of a request without an API key, or with an unknown one.
func NoKey(sent bool) *Error {
	e := &Error{Status: 401, Type: invalidRequest, Code: "invalid_api_key", Rule: "auth.key",
		Message: "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."}
	if sent {
		e.Message = "Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys."
	}
	return e
}

// tooLong refuses a prompt that the context of the model does not hold.
func tooLong(param string, prompt, context int) *Error {
	return &Error{Status: 400, Type: invalidRequest, Param: param, Code: "context_length_exceeded", Rule: "context_length_exceeded", Prompt: prompt, Context: context,
		Message: fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.", context, prompt)}
}

// shared are the errors of the code that all APIs share, by the rule that identifies them.
var shared = map[string]Error{
	"body.size":                  {Status: 413, Type: invalidRequest, Message: "Request body is too large."},
	"fault.too_large_413":        {Status: 413, Type: invalidRequest, Message: "Request body is too large."},
	"fault.timeout_408":          {Status: 408, Type: "timeout_error", Message: "Request timed out."},
	"fault.internal_500":         {Status: 500, Type: "server_error", Message: "The server had an error while processing your request. Sorry about that!"},
	"fault.array_error":          {Status: 500, Type: "server_error", Message: "The server had an error while processing your request. Sorry about that!"},
	"fault.error_mid_stream":     {Status: 500, Type: "server_error", Code: "server_error", Message: "The server had an error processing your request. Sorry about that!"},
	"fault.unavailable_503":      {Status: 503, Type: "service_unavailable_error", Message: "The service is temporarily unavailable. Please try again later."},
	"fault.deadline_504":         {Status: 504, Type: "timeout_error", Message: "The upstream server did not answer in time."},
	"fault.capacity":             {Status: 503, Type: "service_unavailable_error", Code: "server_is_overloaded", Message: "Our servers are currently overloaded. Please try again later."},
	"fault.capacity_429":         {Status: 429, Type: "rate_limit_error", Code: "slow_down", Message: "Please slow down and try again later."},
	"fault.overloaded_529":       {Status: 529, Type: "service_unavailable_error", Code: "server_is_overloaded", Message: "The model is currently overloaded with other requests."},
	"fault.unauthorized":         {Status: 401, Type: invalidRequest, Code: "invalid_api_key", Message: "Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys."},
	"fault.invalid_grant":        {Status: 401, Type: invalidRequest, Code: "invalid_api_key", Message: "Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys."},
	"fault.validation_required":  {Status: 403, Type: invalidRequest, Message: "Your organization must be verified to use this model. Please go to: https://platform.openai.com/settings/organization/general and click on Verify Organization."},
	"fault.banned":               {Status: 401, Type: invalidRequest, Code: "account_deactivated", Message: "Your OpenAI account has been deactivated, please check your email for more information."},
	"fault.forbidden":            {Status: 403, Type: invalidRequest, Message: "You have insufficient permissions for this operation."},
	"fault.service_disabled":     {Status: 403, Type: "request_forbidden", Code: "unsupported_country_region_territory", Message: "Country, region, or territory not supported"},
	"fault.not_found":            {Status: 404, Type: invalidRequest, Code: "model_not_found", Message: "The model does not exist or you do not have access to it."},
	"fault.version_too_old":      {Status: 404, Type: invalidRequest, Code: "model_not_found", Message: "The model does not exist or you do not have access to it."},
	"fault.too_long":             {Status: 400, Type: invalidRequest, Param: "messages", Code: "context_length_exceeded", Prompt: 400001, Context: 400000, Message: "This model's maximum context length is 400000 tokens. However, your messages resulted in 400001 tokens. Please reduce the length of the messages."},
	"fault.rate_limit":           {Status: 429, Type: "requests", Code: "rate_limit_exceeded", RetryAfter: 480 * time.Millisecond, Message: "Rate limit reached on requests per min (RPM). Please try again in %s."},
	"quota.per_minute":           {Status: 429, Type: "requests", Code: "rate_limit_exceeded", Message: "Rate limit reached on requests per min (RPM). Please try again in %s."},
	"fault.quota_exhausted":      {Status: 429, Type: "requests", Code: "rate_limit_exceeded", RetryAfter: 76 * time.Minute, Message: "Rate limit reached on requests per day (RPD). Please try again in %s."},
	"quota.per_day":              {Status: 429, Type: "requests", Code: "rate_limit_exceeded", Message: "Rate limit reached on requests per day (RPD). Please try again in %s."},
	"fault.bare_429":             {Status: 429, Type: "requests", Code: "rate_limit_exceeded", Message: "Rate limit reached. Please try again later."},
	"fault.insufficient_quota":   {Status: 429, Type: "insufficient_quota", Code: "insufficient_quota", Message: "You exceeded your current quota, please check your plan and billing details. For more information on this error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors."},
	"fault.insufficient_credits": {Status: 402, Type: "insufficient_quota", Code: "insufficient_credits", Message: "Insufficient credits."},
	"fault.payment_402":          {Status: 402, Type: "insufficient_quota", Code: "payment_required", Message: "Insufficient Balance"},
}

// Shared returns the error for a rule of the code that all APIs share. custom replaces its message,
// and delay its retry-after, unless they are zero.
func Shared(rule, custom string, delay time.Duration) *Error {
	e, ok := shared[rule]
	if !ok {
		e = shared["fault.internal_500"]
	}
	e.Rule = rule
	if delay > 0 && e.Status == 429 && rule != "fault.bare_429" && e.Type != "insufficient_quota" {
		e.RetryAfter = delay
	}
	if strings.Contains(e.Message, "%s") {
		e.Message = fmt.Sprintf(e.Message, e.RetryAfter)
	}
	if custom != "" {
		e.Message = custom
	}
	return &e
}

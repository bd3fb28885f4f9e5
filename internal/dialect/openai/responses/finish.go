package openai

import "perigee"

// responsesFinishes are the provider's words for an end that was none: the reason that the response is incomplete.
var responsesFinishes = map[string]string{
	"MAX_TOKENS":               "max_output_tokens",
	"SAFETY":                   "content_filter",
	"RECITATION":               "content_filter",
	"LANGUAGE":                 "content_filter",
	"BLOCKLIST":                "content_filter",
	"PROHIBITED_CONTENT":       "content_filter",
	"SPII":                     "content_filter",
	"IMAGE_SAFETY":             "content_filter",
	"IMAGE_PROHIBITED_CONTENT": "content_filter",
	"IMAGE_RECITATION":         "content_filter",
	"MODEL_ARMOR":              "content_filter",
	"JAILBREAK":                "content_filter",
}

// responsesMishaps are ends that an agent should try again after, rather than take for the answer.
var responsesMishaps = map[string]string{
	"MALFORMED_FUNCTION_CALL":   "the model wrote a tool call that cannot be read",
	"UNEXPECTED_TOOL_CALL":      "the model called a tool that it was not given",
	"TOO_MANY_TOOL_CALLS":       "the model called too many tools in a row",
	"MISSING_THOUGHT_SIGNATURE": "the provider misses the seal on an earlier tool call",
	"MALFORMED_RESPONSE":        "the model wrote an answer that cannot be read",
}

// finish says how the answer ended, from the provider's word and what had come.
func (a *responsesAnswer) finish(f *perigee.Finish, calls, items int) {
	a.status = responsesCompleted
	if f == nil || calls > 0 {
		return // a call is to be answered, whatever came after it
	}
	if reason, ok := responsesFinishes[f.Reason]; ok {
		a.status, a.incomplete = responsesIncomplete, reason
		return
	}
	if text, ok := responsesMishaps[f.Reason]; ok {
		a.status, a.errorCode, a.errorText = responsesFailed, "server_error", text
		if f.Message != "" {
			a.errorText += ": " + f.Message
		}
		return
	}
	if f.Message != "" && items == 0 { // nothing but a reason why there is nothing
		a.status, a.incomplete = responsesIncomplete, "content_filter"
	}
}

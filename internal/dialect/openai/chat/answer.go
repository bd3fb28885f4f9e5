package chat

import (
	"slices"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/dialect/openai"
	"perigee/internal/lib/rawjson"
)

// An Answer has the fields that all chunks of an answer share.
type Answer struct {
	ID      string           // of the answer: chatcmpl-…
	Created int64            // Unix time
	Model   string           // the requested model; replaced by the one that answers
	Style   *Style           // nil for the usual one
	Log     *perigee.CallLog // collects notes while the answer is written; nil discards them
}

// noteNoLogprobs adds a note when a choice has ended without the requested log probabilities. Some
// models have none, which only the end of the answer shows.
func (a *Answer) noteNoLogprobs(c *choice) {
	if a.Style.Logprobs && c.hasText && !c.hasLogprobs {
		a.Log.NoteOnce(openai.NoLogprobs)
	}
}

// head begins an object of this API with the members that all of them have.
func (a *Answer) head(w *rawjson.Writer, object string) *rawjson.Writer {
	return w.Object().Key("id").String(a.ID).Key("object").String(object).Key("created").Int(a.Created).Key("model").String(a.Model)
}

// A toolCall is a call in an answer and the provider's signature over it.
type toolCall struct {
	*perigee.FunctionCall
	signature string
}

// writeCall writes one of tool_calls. index is -1 outside of a stream, where calls have none.
func (s *Style) writeCall(w *rawjson.Writer, call toolCall, index int) {
	w.Object()
	if index >= 0 {
		w.Key("index").Int(int64(index))
	}
	w.Key("id").String(call.ID)
	if slices.Contains(s.Custom, call.Name) {
		w.Members(`"type":"custom"`).Key("custom").Object().Key("name").String(call.Name)
		w.Key("input").String(openai.Unwrap("input", call.Args)).EndObject()
	} else {
		w.Members(`"type":"function"`).Key("function")
		writeFunctionCall(w, call.FunctionCall)
	}
	writeSignatures(w, signatures{text: call.signature})
	w.EndObject()
}

// writeFunctionCall writes the name and the arguments, which this dialect wants as a text.
func writeFunctionCall(w *rawjson.Writer, call *perigee.FunctionCall) {
	w.Object().Key("name").String(call.Name).Key("arguments").String(string(argumentsOf(call))).EndObject()
}

// argumentsOf returns the arguments of a call, which are never empty.
func argumentsOf(call *perigee.FunctionCall) []byte {
	if len(call.Args) == 0 {
		return openai.EmptyArgs
	}
	return call.Args
}

// writeSignatures writes the member extra_content, from which the decoder reads signatures back, if
// there are any.
func writeSignatures(w *rawjson.Writer, s signatures) {
	if s == (signatures{}) {
		return
	}
	w.Key("extra_content").Object().Key("google").Object()
	if s.text != "" {
		w.Key("thought_signature").String(s.text)
	}
	if s.reasoning != "" {
		w.Key("reasoning_signature").String(s.reasoning)
	}
	w.EndObject().EndObject()
}

// writeImage writes one of images, a member that several vendors have added to this API.
func writeImage(w *rawjson.Writer, blob *perigee.Blob, index int) {
	w.Object().Members(`"type":"image_url"`).Key("image_url").Object().Key("url").String(dialect.DataURL(blob)).EndObject()
	w.Key("index").Int(int64(index)).EndObject()
}

// writeAnnotations writes the list of sources.
func writeAnnotations(w *rawjson.Writer, list []openai.Citation) {
	w.Key("annotations").Array()
	for _, c := range list {
		w.Object().Members(`"type":"url_citation"`).Key("url_citation").Object()
		w.Key("start_index").Int(int64(c.Start)).Key("end_index").Int(int64(c.End))
		w.Key("url").String(c.URL).Key("title").String(c.Title).EndObject().EndObject()
	}
	w.EndArray()
}

// writeUsage writes the member usage.
func writeUsage(w *rawjson.Writer, u perigee.Usage) {
	w.Key("usage").Object().Key("prompt_tokens").Int(u.Input).Key("completion_tokens").Int(u.Output)
	w.Key("total_tokens").Int(u.Total())
	w.Key("prompt_tokens_details").Object().Key("cached_tokens").Int(u.Cached).Members(`"audio_tokens":0`).EndObject()
	w.Key("completion_tokens_details").Object().Key("reasoning_tokens").Int(u.Thinking)
	w.Members(`"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0`).EndObject().EndObject()
}

// refusal returns why the answer was withheld, or "" if it was not. After content it returns only
// an explanation of the provider's own: the finish reason is enough otherwise.
func (c *choice) refusal() string {
	withheld := c.finish.Kind == perigee.FinishFiltered || c.finish.Kind == perigee.FinishUnexplained
	if !openai.IsExplained(&c.finish) && (c.hasContent || !withheld) {
		return ""
	}
	return openai.Withheld(&c.finish)
}

// finishReason returns why a choice ended. If there are calls it is tool_calls, also if the
// provider reports another reason, because clients depend on it. An empty answer without a reason
// was withheld.
func (s *Style) finishReason(c *choice) string {
	switch {
	case c.callCount > 0 && s.Functions:
		return "function_call"
	case c.callCount > 0:
		return "tool_calls"
	case c.finish.Kind == perigee.FinishLength:
		return "length"
	case c.finish.Kind == perigee.FinishFiltered, c.finish.Kind == perigee.FinishUnexplained && !c.hasContent:
		return "content_filter"
	}
	return "stop" // this API has no reason for malformed answers
}

package chat

import (
	"slices"
	"strconv"

	"perigee"
	"perigee/internal/dialect/media"
	"perigee/internal/dialect/openai"
	"perigee/internal/rawjson"
)

// An Answer is what all chunks of an answer share.
type Answer struct {
	ID      string // of the answer: chatcmpl-…
	Created int64  // Unix time
	Model   string // as the client asked for it; what really answers replaces it
	Style   Style
	Late    *perigee.LateNotes // takes what comes up while the answer is written; nil: nobody wants to know
}

// missed notes that a choice has ended without the probabilities that were asked for. Some models have none, and nobody knows
// before.
func (a *Answer) missed(c *choice) {
	if a.Style.Logprobs && c.worded && !c.probed {
		a.Late.Add(openai.NoLogprobs)
		a.Style.Logprobs = false // which is said once
	}
}

// appendHead appends the members that open every object of this API.
func (a *Answer) appendHead(dst []byte, object string) []byte {
	dst = append(dst, `{"id":`...)
	dst = rawjson.AppendString(dst, a.ID)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, a.Created, 10)
	dst = append(dst, `,"model":`...)
	return rawjson.AppendString(dst, a.Model)
}

// A toolCall is a call in an answer and the provider's signature over it.
type toolCall struct {
	*perigee.FunctionCall
	signature string
}

// appendCall appends one of tool_calls; in a stream it has an index.
func (s *Style) appendCall(dst []byte, call toolCall, index int) []byte {
	dst = append(dst, '{')
	if index >= 0 {
		dst = append(dst, `"index":`...)
		dst = strconv.AppendInt(dst, int64(index), 10)
		dst = append(dst, ',')
	}
	dst = append(dst, `"id":`...)
	dst = rawjson.AppendString(dst, call.ID)
	if slices.Contains(s.Custom, call.Name) {
		dst = append(dst, `,"type":"custom","custom":{"name":`...)
		dst = rawjson.AppendString(dst, call.Name)
		dst = append(dst, `,"input":`...)
		dst = rawjson.AppendString(dst, openai.Unwrap("input", call.Args))
		dst = append(dst, '}')
	} else {
		dst = append(dst, `,"type":"function","function":`...)
		dst = appendFunctionCall(dst, call.FunctionCall)
	}
	if call.signature != "" {
		dst = append(dst, ',')
		dst = appendSeals(dst, seals{text: call.signature})
	}
	return append(dst, '}')
}

// appendFunctionCall appends the name and the arguments, which this dialect wants as a text.
func appendFunctionCall(dst []byte, call *perigee.FunctionCall) []byte {
	args := string(call.Args)
	if args == "" {
		args = "{}"
	}
	dst = append(dst, `{"name":`...)
	dst = rawjson.AppendString(dst, call.Name)
	dst = append(dst, `,"arguments":`...)
	dst = rawjson.AppendString(dst, args)
	return append(dst, '}')
}

// appendSeals appends the member extra_content, from which the decoder reads signatures back.
func appendSeals(dst []byte, s seals) []byte {
	dst = append(dst, `"extra_content":{"google":{`...)
	if s.text != "" {
		dst = append(dst, `"thought_signature":`...)
		dst = rawjson.AppendString(dst, s.text)
	}
	if s.reasoning != "" {
		if s.text != "" {
			dst = append(dst, ',')
		}
		dst = append(dst, `"reasoning_signature":`...)
		dst = rawjson.AppendString(dst, s.reasoning)
	}
	return append(dst, "}}"...)
}

// appendImage appends one of images, a member that several vendors have added to this API.
func appendImage(dst []byte, blob *perigee.Blob, index int) []byte {
	dst = append(dst, `{"type":"image_url","image_url":{"url":`...)
	dst = rawjson.AppendString(dst, media.URL(blob))
	dst = append(dst, `},"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	return append(dst, '}')
}

// appendAnnotations appends the list of sources.
func appendAnnotations(dst []byte, list []openai.Citation) []byte {
	dst = append(dst, '[')
	for i, c := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"type":"url_citation","url_citation":{"start_index":`...)
		dst = strconv.AppendInt(dst, int64(c.Start), 10)
		dst = append(dst, `,"end_index":`...)
		dst = strconv.AppendInt(dst, int64(c.End), 10)
		dst = append(dst, `,"url":`...)
		dst = rawjson.AppendString(dst, c.URL)
		dst = append(dst, `,"title":`...)
		dst = rawjson.AppendString(dst, c.Title)
		dst = append(dst, "}}"...)
	}
	return append(dst, ']')
}

// appendUsage appends a usage object.
func appendUsage(dst []byte, u perigee.Usage) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, u.Input, 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, u.Output, 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.Total(), 10)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, u.Cached, 10)
	dst = append(dst, `,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, u.Thinking, 10)
	return append(dst, `,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`...)
}

// refusal is why there is no answer, where one was withheld; empty: there is one.
func (c *choice) refusal() string {
	if c.begun || c.finish.Kind != perigee.FinishFiltered && c.finish.Kind != perigee.FinishUnexplained {
		return ""
	}
	return openai.Withheld(&c.finish)
}

// finishReason says why a choice ended. Calls are the reason whatever else the provider says, because clients act
// on nothing else. An answer that ends without a word and without a reason was withheld.
func (s *Style) finishReason(c *choice) string {
	switch {
	case c.callCount > 0 && s.Functions:
		return "function_call"
	case c.callCount > 0:
		return "tool_calls"
	case c.finish.Kind == perigee.FinishLength:
		return "length"
	case c.finish.Kind == perigee.FinishFiltered, c.finish.Kind == perigee.FinishUnexplained && !c.begun:
		return "content_filter"
	}
	return "stop" // this API has no word for mishaps
}

package ollama

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"perigee/internal/simulator/completion"
)

type answerMessage struct {
	Role     string       `json:"role"`
	Content  string       `json:"content"`
	Thinking string       `json:"thinking,omitempty"`
	Calls    []answerCall `json:"tool_calls,omitempty"`
}

type answerCall struct {
	ID       string `json:"id"`
	Function struct {
		Index     int             `json:"index"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// line is an answer, or a line of a streamed one.
type line struct {
	Model   string        `json:"model"`
	Created time.Time     `json:"created_at"`
	Message answerMessage `json:"message"`
	Done    bool          `json:"done"`
	Reason  string        `json:"done_reason,omitempty"`
	Probs   []tokenProbs  `json:"logprobs,omitempty"`
	metrics
}

// metrics are counts of tokens and durations in nanoseconds.
type metrics struct {
	Total      time.Duration `json:"total_duration,omitempty"`
	Load       time.Duration `json:"load_duration,omitempty"`
	Prompt     int           `json:"prompt_eval_count,omitempty"`
	PromptTime time.Duration `json:"prompt_eval_duration,omitempty"`
	Eval       int           `json:"eval_count,omitempty"`
	EvalTime   time.Duration `json:"eval_duration,omitempty"`
}

// Empty is the answer to a request that only loads or unloads a model.
func (c *Chat) Empty(now time.Time) []byte {
	return c.encode(line{Model: c.in.Model, Created: now.UTC(), Message: answerMessage{Role: "assistant"}, Done: true, Reason: c.Ended})
}

// Events are the lines of a streamed answer. Calls of tools are never divided; one of the runners
// sends them with the last line.
func (c *Chat) Events(r *completion.Reply) []completion.Event {
	var events []completion.Event
	emit := func(l line) {
		l.Model, l.Message.Role = c.in.Model, "assistant"
		l.Created = time.Unix(r.Created, int64(len(events)+1)*int64(evalTime)).UTC()
		events = append(events, completion.Event{Data: c.encode(l)})
	}
	last := c.last(r)
	for i, p := range r.Candidates[0].Parts {
		switch {
		case p.Call != nil && c.Model.Runner == runnerLlama:
			last.Message.Calls = append(last.Message.Calls, call(r, p.Call, i, len(last.Message.Calls)))
		case p.Call != nil:
			emit(line{Message: answerMessage{Calls: []answerCall{call(r, p.Call, i, calls(r.Candidates[0].Parts[:i]))}}})
		case p.Thought:
			for _, piece := range r.Pieces(p.Text) {
				emit(line{Message: answerMessage{Thinking: piece}, Probs: c.probs(piece)})
			}
		case p.Image == nil:
			for _, piece := range r.Pieces(p.Text) {
				emit(line{Message: answerMessage{Content: piece}, Probs: c.probs(piece)})
			}
		}
	}
	if r.NoFinish {
		return events
	}
	emit(last)
	if r.DuplicateFinish {
		emit(last)
	}
	return events
}

// Whole is an answer in one piece.
func (c *Chat) Whole(r *completion.Reply) []byte {
	l := c.last(r)
	l.Model, l.Created, l.Message.Role = c.in.Model, time.Unix(r.Created, 0).UTC(), "assistant"
	for i, p := range r.Candidates[0].Parts {
		l.Probs = append(l.Probs, c.probs(p.Text)...)
		switch {
		case p.Call != nil:
			l.Message.Calls = append(l.Message.Calls, call(r, p.Call, i, len(l.Message.Calls)))
		case p.Thought:
			l.Message.Thinking += p.Text
		default:
			l.Message.Content += p.Text
		}
	}
	if r.NoFinish {
		l.Done, l.Reason = false, ""
	}
	return c.encode(l)
}

// encode writes a line in the form of the method.
func (c *Chat) encode(l line) []byte {
	if !c.generate {
		return encode(l)
	}
	return encode(struct {
		Model    string    `json:"model"`
		Created  time.Time `json:"created_at"`
		Response string    `json:"response"`
		Thinking string    `json:"thinking,omitempty"`
		Done     bool      `json:"done"`
		Reason   string    `json:"done_reason,omitempty"`
		metrics
		Probs []tokenProbs `json:"logprobs,omitempty"`
	}{l.Model, l.Created, l.Message.Content, l.Message.Thinking, l.Done, l.Reason, l.metrics, l.Probs})
}

// The time that a token takes.
const (
	promptTime = time.Millisecond
	evalTime   = 20 * time.Millisecond
)

// last is the line that ends an answer.
func (c *Chat) last(r *completion.Reply) line {
	l := line{Done: true, Reason: "stop"}
	switch finish := r.Candidates[0].Finish; finish {
	case "MAX_TOKENS":
		l.Reason = "length"
	case "STOP", "SAFETY":
	default:
		l.Reason = finish
	}
	eval, _ := r.Output()
	l.metrics = metrics{Load: cmp.Or(c.Load, 10*time.Millisecond), Prompt: c.Prompt, PromptTime: time.Duration(c.Prompt) * promptTime,
		Eval: eval, EvalTime: time.Duration(eval) * evalTime}
	l.Total = l.Load + l.PromptTime + l.EvalTime
	if r.NoUsage {
		l.metrics = metrics{Total: l.Total, Load: l.Load}
	}
	return l
}

// A tokenProb is a token and the logarithm of its probability.
type tokenProb struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes,omitempty"`
}

// tokenProbs is a token of the answer, and the likeliest tokens in its place.
type tokenProbs struct {
	tokenProb
	Top []tokenProb `json:"top_logprobs,omitempty"`
}

// probs are the probabilities of the tokens of a piece of an answer, or nil if the request does not
// ask for them. A token is a character.
func (c *Chat) probs(piece string) []tokenProbs {
	if !c.in.Logprobs {
		return nil
	}
	var all []tokenProbs
	for _, r := range piece {
		each := tokenProbs{tokenProb: probability(string(r), -0.25)}
		for i := range c.in.TopLogprobs {
			other := each.tokenProb
			if i > 0 {
				other = probability(string(rune('a'+i)), -0.25-float64(i))
			}
			each.Top = append(each.Top, other)
		}
		all = append(all, each)
	}
	return all
}

func probability(token string, logprob float64) tokenProb {
	p := tokenProb{Token: token, Logprob: logprob}
	for _, b := range []byte(token) {
		p.Bytes = append(p.Bytes, int(b))
	}
	return p
}

func calls(parts []completion.Part) (n int) {
	for _, p := range parts {
		if p.Call != nil {
			n++
		}
	}
	return n
}

func call(r *completion.Reply, given *completion.Call, part, index int) answerCall {
	var out answerCall
	out.ID = "call_" + strings.ToLower(r.ID(completion.Name("call", part), 8))
	out.Function.Index, out.Function.Name, out.Function.Arguments = index, given.Name, given.Args
	if given.Args == nil {
		out.Function.Arguments = json.RawMessage("{}")
	}
	return out
}

package trajectory

import (
	"slices"
	"strings"

	"perigee"
)

// Separator is between the texts of two steps.
const Separator = "\n\n"

// A Turn collects the events of a turn in the current state of the source: rewritten text replaces
// the earlier text. The zero value is a turn without events. It is not safe for concurrent use.
type Turn struct {
	Started bool           // a message of the user began it
	First   int            // index of the step with that message
	Last    int            // the highest index of a step that was reported
	Written []WrittenStep  // steps with text or thinking, in order
	Waiting []Event        // of KindWaiting, which no later event has ended
	Error   *perigee.Error // the last one; nil if there was none
	Usage   Usage          // so far
	Read    int            // bytes of text and thinking that were read, including rewritten text
}

// A WrittenStep is the text of one step.
type WrittenStep struct {
	Step           int
	Text, Thinking string
}

// Take adds an event. A message of the user starts another turn: earlier events are dropped.
func (t *Turn) Take(e Event) {
	if e.Kind == KindTurn {
		*t = Turn{Started: true, First: e.Step}
	}
	if e.Kind != KindUsage && e.Kind != KindDone {
		t.Last = max(t.Last, e.Step)
	}
	switch e.Kind {
	case KindText, KindTextReplaced:
		t.write(&t.step(e.Step).Text, e.Text, e.Kind == KindTextReplaced)
	case KindThinking, KindThinkingReplaced:
		t.write(&t.step(e.Step).Thinking, e.Text, e.Kind == KindThinkingReplaced)
	case KindUsage:
		t.Usage = e.Usage
	case KindTruncated:
		t.Written = slices.DeleteFunc(t.Written, func(s WrittenStep) bool { return s.Step >= e.Step })
		t.Waiting = slices.DeleteFunc(t.Waiting, func(w Event) bool { return w.Step >= e.Step })
		t.Last = max(e.Step-1, 0)
	case KindResult:
		t.Waiting = slices.DeleteFunc(t.Waiting, func(w Event) bool { return w.Step == e.Step })
	case KindWaiting:
		t.Waiting = append(t.Waiting, e)
	case KindError:
		t.Error = e.Error
	}
}

// step returns the step with an index.
func (t *Turn) step(index int) *WrittenStep {
	at, ok := slices.BinarySearchFunc(t.Written, index, func(s WrittenStep, index int) int { return s.Step - index })
	if !ok {
		t.Written = slices.Insert(t.Written, at, WrittenStep{Step: index})
	}
	return &t.Written[at]
}

func (t *Turn) write(known *string, text string, replaced bool) {
	t.Read += len(text)
	if replaced {
		*known = ""
	}
	*known += text
}

// At returns the text of a step.
func (t *Turn) At(step int) WrittenStep {
	for _, s := range t.Written {
		if s.Step == step {
			return s
		}
	}
	return WrittenStep{Step: step}
}

// Text returns the text of all steps, joined by Separator.
func (t *Turn) Text() string {
	var texts []string
	for i := range t.Written {
		if t.Written[i].Text != "" {
			texts = append(texts, t.Written[i].Text)
		}
	}
	return strings.Join(texts, Separator)
}

// Steps returns the number of steps after the message of the user.
func (t *Turn) Steps() int { return max(t.Last-t.First, 0) }

// Tokens converts to perigee's count: input includes tokens read from and written to the cache,
// which the language server counts separately.
func (u Usage) Tokens() *perigee.Usage {
	return &perigee.Usage{Input: int64(u.Input + u.CacheRead + u.CacheWrite), Cached: int64(u.CacheRead),
		Output: int64(max(u.Output, u.Thinking)), Thinking: int64(u.Thinking)}
}

package trajectory

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	"perigee"
	geminicoder "perigee/gen/gemini_coder"
)

// recheck is the time after which steps are read again even if no source reports a change, because
// some sources are slow.
const recheck = time.Second

// examine reads the steps of candidates that have changed since they were read.
func (s *search) examine(ctx context.Context) {
	list := s.candidates()
	if len(list) > maxCandidates {
		list = list[:maxCandidates]
	}
	for _, c := range list {
		if ctx.Err() != nil {
			return
		}
		known := s.checks[c.ID]
		if known != nil && known.match != nil {
			known.summary = c // the workspace may be known now
			continue
		}
		if known != nil && time.Since(known.at) < recheck && (known.err != nil || reflect.DeepEqual(known.summary, c)) {
			continue
		}
		if found := s.check(ctx, c); ctx.Err() == nil || found.match != nil || known == nil {
			s.checks[c.ID] = found
		}
	}
}

var errNoReader = errors.New("there is no reader")

// check reads the steps of a candidate with the first reader that can.
func (s *search) check(ctx context.Context, c Summary) *check {
	result := &check{summary: c, err: errNoReader, at: time.Now()}
	for i, reader := range s.readers {
		if time.Now().Before(s.slow[i]) {
			continue
		}
		first, steps, err := s.steps(ctx, reader, c)
		if err != nil {
			if errors.Is(err, errSlowReader) && len(s.readers) > 1 {
				s.slow[i] = time.Now().Add(readLimit)
			}
			if errors.Is(result.err, errNoReader) || perigee.AsError(err).Class != perigee.ClassNotFound {
				result.err = err
			}
			continue
		}
		result.err = nil
		at := lastInput(steps)
		if at < 0 || !s.isPrompt(steps[at]) {
			// Another reader may be ahead of this one, but the next listing shows that.
			return result
		}
		since, dated := s.since(&c, first+at, steps[at])
		if since {
			result.dated = dated
			result.match = &Match{Conversation: c.ID, Step: first + at, Reader: reader}
		}
		return result
	}
	return result
}

// steps reads the end of a conversation, with the last message of the user if that is possible,
// else all of it.
func (s *search) steps(ctx context.Context, reader Reader, c Summary) (first int, steps []*geminicoder.Step, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readLimit, errSlowReader)
	defer cancel()
	first = c.InputStep
	if known := s.before[c.ID]; first == 0 && known.Steps > 0 {
		first = known.Steps
	}
	if first > 0 {
		steps, err = stepsFrom(ctx, reader, c.ID, first)
		if err == nil && lastInput(steps) >= 0 {
			return first, steps, nil
		}
	}
	steps, err = stepsFrom(ctx, reader, c.ID, 0)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return 0, steps, err
}

var errSlowReader = perigee.Errorf(perigee.ClassUnavailable, "its steps took longer than %v to read", readLimit)

// maxSteps is the maximum number of steps of a conversation that are read.
const maxSteps = 100_000

// stepsFrom reads all steps from an index on: an answer may end before the conversation does.
func stepsFrom(ctx context.Context, reader Reader, id string, from int) (all []*geminicoder.Step, err error) {
	for len(all) < maxSteps {
		steps, err := reader.Steps(ctx, id, from+len(all))
		if err != nil && len(all) > 0 && perigee.AsError(err).Class == perigee.ClassInvalid {
			return all, nil // beyond the end
		}
		if err != nil || len(steps) == 0 {
			return all, err
		}
		all = append(all, steps...)
	}
	return all, nil
}

// lastInput returns the index of the last message of the user, or -1 if there is none.
func lastInput(steps []*geminicoder.Step) int {
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i].GetUserInput() != nil {
			return i
		}
	}
	return -1
}

// isPrompt reports whether a step is the prompt. Versions store the text in one or several parts,
// as a whole, or both.
func (s *search) isPrompt(step *geminicoder.Step) bool {
	in := step.GetUserInput()
	var parts []string
	for _, item := range in.GetItems() {
		parts = append(parts, item.GetText())
	}
	for _, text := range []string{strings.Join(parts, ""), strings.Join(parts, "\n"), in.GetUserResponse(), in.GetQuery()} {
		if normalize(text) == s.q.Prompt {
			return true
		}
	}
	return false
}

// normalize returns a prompt without surrounding space and with normalized line endings, which
// editors change.
func normalize(text string) string {
	return strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
}

// since reports whether a message was written since the submission, and whether that is certain.
func (s *search) since(c *Summary, at int, step *geminicoder.Step) (since, certain bool) {
	known := s.before[c.ID]
	if known.Steps > 0 && at < known.Steps {
		return false, true
	}
	if created := step.GetMetadata().GetCreatedAt(); created.IsValid() && plausibleTime(created.AsTime()) {
		return !created.AsTime().Before(s.q.Since.Add(-stepSlack)), true
	}
	if known.Steps > 0 {
		return true, true
	}
	if !c.LastInput.IsZero() {
		return s.isRecent(c.LastInput), true
	}
	return true, s.isNew(c)
}

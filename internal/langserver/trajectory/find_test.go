package trajectory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	cortexpb "perigee/gen/exa/cortex_pb"
	geminicoder "perigee/gen/gemini_coder"
)

// A rule is a situation and what Find makes of it. Times are relative to the submission.
type rule struct {
	name   string
	query  Query
	setup  func(m *memory, now time.Time)
	want   string // conversation, "unverified" if it was not seen; or the class of the error and a part of its text
	took   time.Duration
	report string // a part of the degradations; empty means there are none
}

var ours = []string{"/code/a"}

const (
	hour = time.Hour
	poll = pollFirst + 10*time.Millisecond
)

// later does something in the time of a bubble.
func later(d time.Duration, f func()) { time.AfterFunc(d, f) }

var rules = []rule{
	{"a new conversation", Query{}, func(m *memory, now time.Time) {
		m.put(at("old", now.Add(-hour), "/code/a"), said("hello", now.Add(-hour)))
		later(1500*time.Millisecond, func() { m.put(at("new", time.Now(), "/code/a"), said(" hello\r\n", time.Now())) })
	}, "new 0", 3 * time.Second, ""},
	{"one that is continued", Query{}, func(m *memory, now time.Time) {
		m.put(at("c", now, "/code/a"), said("before", now.Add(-hour)), answered("x"), said("hello", now.Add(time.Millisecond)), answered("y"))
	}, "c 2", poll, ""},
	{"the last message is another one", Query{}, func(m *memory, now time.Time) {
		m.put(at("c", now, "/code/a"), said("hello", now), answered("x"), said("and now?", now))
	}, "not_found 1 conversations have changed since, and none of them has the prompt", defaultWindow, ""},
	{"an older conversation with the same prompt still runs", Query{}, func(m *memory, now time.Time) {
		m.put(at("c", now.Add(time.Second), "/code/a"), said("hello", now.Add(-time.Minute)), answered("x"))
	}, "not_found none of them has the prompt", defaultWindow, ""},
	{"the same without times, but known before", Query{Before: []Summary{{ID: "c", Steps: 1}}}, func(m *memory, now time.Time) {
		m.put(at("c", now.Add(time.Second), "/code/a"), said("hello", time.Time{}), answered("x"))
	}, "not_found none of them has the prompt", defaultWindow, ""},
	{"the same prompt a second before", Query{}, func(m *memory, now time.Time) {
		m.put(at("c", now, "/code/a"), said("hello", now.Add(-time.Second)), answered("x"))
		later(1500*time.Millisecond, func() { m.put(at("new", time.Now(), "/code/a"), said("hello", time.Now())) })
	}, "new 0", 3 * time.Second, ""},
	{"the same prompt at the same time, but known before", Query{Before: []Summary{{ID: "c", Steps: 2}}}, func(m *memory, now time.Time) {
		m.put(at("c", now, "/code/a"), said("hello", now), answered("x"))
	}, "not_found none of them has the prompt", defaultWindow, ""},
	{"nothing changes", Query{}, func(m *memory, now time.Time) {
		m.put(at("c", now.Add(-hour), "/code/a"), said("hello", now.Add(-hour)))
	}, "not_found no conversation has changed since", defaultWindow, ""},
	{"nothing is there", Query{}, func(*memory, time.Time) {}, "not_found no conversation has changed since", defaultWindow, ""},
	{"a part of the prompt", Query{}, func(m *memory, now time.Time) {
		m.put(at("c", now, "/code/a"), said("hello there", now))
	}, "not_found none of them", defaultWindow, ""},
	{"two in the workspace", Query{}, func(m *memory, now time.Time) {
		m.put(at("c1", now, "/code/a"), said("hello", now))
		m.put(at("c2", now, "file:///code/a/"), said("hello", now))
	}, "unavailable several conversations have begun with this prompt: c1, c2", defaultWindow, ""},
	{"two, of which one is ours", Query{}, func(m *memory, now time.Time) {
		m.put(at("c1", now, "/code/b"), said("hello", now))
		m.put(at("c2", now, "/code/x", "file:///code/a"), said("hello", now))
		m.put(at("c3", now), said("hello", now))
	}, "c2 0", poll, ""},
	{"two of unknown workspaces", Query{}, func(m *memory, now time.Time) {
		m.put(at("c1", now), said("hello", now))
		m.put(at("c2", now), said("hello", now))
	}, "unavailable c1, c2", defaultWindow, ""},
	{"one of an unknown workspace", Query{}, func(m *memory, now time.Time) {
		m.put(at("c1", now), said("hello", now))
	}, "c1 0", stableTime + 2*poll, ""},
	{"one in a directory above", Query{}, func(m *memory, now time.Time) {
		m.put(at("c1", now, "/code"), said("hello", now))
	}, "c1 0", stableTime + 2*poll, ""},
	{"an unknown workspace, and then ours", Query{}, func(m *memory, now time.Time) {
		m.put(at("c1", now), said("hello", now))
		later(400*time.Millisecond, func() { m.put(at("c2", time.Now(), "/code/a"), said("hello", time.Now())) })
	}, "c2 0", 2 * time.Second, ""},
	{"the workspace is known later", Query{}, func(m *memory, now time.Time) {
		m.put(at("c1", now), said("hello", now))
		m.put(at("c2", now), said("hello", now))
		later(3*time.Second, func() { m.put(at("c1", now, "/code/a"), said("hello", now)) })
	}, "c1 0", 5 * time.Second, ""},
	{"only one of another workspace", Query{}, func(m *memory, now time.Time) {
		m.put(at("c1", now, "/code/b"), said("hello", now))
	}, "not_found of another workspace have begun with this prompt: c1", defaultWindow, ""},
	{"a message without a time counts less", Query{}, func(m *memory, now time.Time) {
		m.put(at("c1", now, "/code/a"), said("hello", time.Time{}))
		m.put(at("c2", now, "/code/a"), said("hello", now))
	}, "c2 0", poll, ""},
	{"a message without a time, in the only one", Query{}, func(m *memory, now time.Time) {
		m.put(at("c1", now, "/code/a"), said("hello", time.Time{}))
	}, "c1 0", poll, ""},
	{"it is named", Query{Conversation: "c1"}, func(m *memory, now time.Time) {
		m.put(at("c1", now.Add(-hour), "/code/b"), said("before", now.Add(-hour)))
		m.put(at("c2", now, "/code/a"), said("hello", now))
		later(1200*time.Millisecond, func() {
			m.put(at("c1", now.Add(-hour), "/code/b"), said("before", now.Add(-hour)), said("hello", time.Now()))
		})
	}, "c1 1", 4 * time.Second, ""},
	{"it is named and does not exist", Query{Conversation: "c3"}, func(*memory, time.Time) {},
		"not_found no source knows the conversation c3", defaultWindow, "conversation c3: no conversation c3"},
	{"it is named and cannot be read", Query{Conversation: "c1", Before: []Summary{{ID: "c1", Steps: 7}}}, func(m *memory, now time.Time) {
		m.readErr = errors.New("encrypted")
	}, "c1 7 unverified", defaultWindow, "search: the steps of the conversation cannot be read"},
	{"no steps, and one new conversation", Query{Before: []Summary{{ID: "known"}}}, func(m *memory, now time.Time) {
		m.put(at("c1", now, "/code/a"))
		m.put(at("old", now.Add(-hour), "/code/a"))
		m.readErr = errors.New("encrypted")
	}, "c1 0 unverified", defaultWindow, "search: no reader can show the messages; this is the only new conversation of the workspace"},
	{"no steps, and two new conversations", Query{Before: []Summary{{ID: "known"}}}, func(m *memory, now time.Time) {
		m.put(at("c1", now, "/code/a"))
		m.put(at("c2", now, "/code/b"))
		m.readErr = errors.New("encrypted")
	}, "not_found 2 conversations have changed since, of which 2 cannot be read", defaultWindow, "conversation c1: encrypted"},
	{"no steps, and one that has changed", Query{Before: []Summary{{ID: "c1"}}}, func(m *memory, now time.Time) {
		m.put(at("c1", now, "/code/a"))
		m.readErr = errors.New("encrypted")
	}, "not_found of which 1 cannot be read", defaultWindow, "conversation c1: encrypted"},
	{"no steps, and a new one of an unknown workspace", Query{Before: []Summary{{ID: "known"}}}, func(m *memory, now time.Time) {
		m.put(at("c1", now))
		m.readErr = errors.New("encrypted")
	}, "not_found of which 1 cannot be read", defaultWindow, "conversation c1: encrypted"},
	{"no steps, and it is unknown what there was", Query{Before: []Summary{}}, func(m *memory, now time.Time) {
		m.put(at("c1", now, "/code/a"))
		m.readErr = errors.New("encrypted")
	}, "not_found of which 1 cannot be read", defaultWindow, "conversation c1: encrypted"},
	{"the source fails", Query{}, func(m *memory, now time.Time) { m.err = errors.New("no database") },
		"not_found no conversation has changed since", defaultWindow, "memory: no database"},
	{"the source fails at first", Query{}, func(m *memory, now time.Time) {
		m.err = errors.New("no database")
		later(2*time.Second, func() {
			m.put(at("c1", time.Now(), "/code/a"), said("hello", time.Now()))
			m.mu.Lock()
			m.err = nil
			m.mu.Unlock()
		})
	}, "c1 0", 4 * time.Second, ""},
	{"the source is degraded", Query{}, func(m *memory, now time.Time) {
		m.put(at("c1", now, "/code/a"), said("hello", now))
		m.listing.Degraded = []string{"status is a list"}
	}, "c1 0", poll, "memory: status is a list"},
	{"the source never says when", Query{Before: []Summary{{ID: "c1", Steps: 1}, {ID: "c2"}}}, func(m *memory, now time.Time) {
		m.put(at("c1", time.Time{}, "/code/a"), said("hello", time.Time{}), answered("x"))
		m.put(at("c2", time.Time{}, "/code/a"), said("x", time.Time{}))
		m.put(at("c3", time.Time{}, "/code/a"), said("hello", now))
	}, "c3 0", poll, ""},
	{"the source is slow to say that it has changed", Query{}, func(m *memory, now time.Time) {
		m.put(at("c1", now, "/code/a"))
		later(3*time.Second, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.steps["c1"] = []*geminicoder.Step{said("hello", time.Now())}
		})
	}, "c1 0", 5 * time.Second, ""},
	{"several parts", Query{Prompt: "look at\nit"}, func(m *memory, now time.Time) {
		step := said("look at", now)
		in := step.GetUserInput()
		in.Items = append(in.Items, &codeiumcommonpb.TextOrScopeItem{Chunk: &codeiumcommonpb.TextOrScopeItem_Text{Text: "it"}})
		m.put(at("c1", now, "/code/a"), step)
	}, "c1 0", poll, ""},
	{"in another member", Query{}, func(m *memory, now time.Time) {
		m.put(at("c1", now, "/code/a"), &geminicoder.Step{Step: &geminicoder.Step_UserInput{UserInput: &cortexpb.CortexStepUserInput{UserResponse: "hello"}}})
	}, "c1 0", poll, ""},
	{"in the queue", Query{}, func(m *memory, now time.Time) {
		step := said("hello", now)
		step.GetUserInput().IsQueuedMessage = true
		m.put(at("c1", now, "/code/a"), step)
	}, "c1 0", poll, ""},
	{"many have changed", Query{}, func(m *memory, now time.Time) {
		for i := range 100 {
			m.put(at(fmt.Sprint("other", i), now.Add(-time.Second), "/code/a"), said("x", now))
		}
		m.put(at("c1", now, "/code/a"), said("hello", now))
	}, "c1 0", poll, ""},
}

func TestRules(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				now := time.Now()
				r.setup(m, now)
				q := r.query
				if q.Prompt == "" {
					q.Prompt = "hello"
				}
				q.Since, q.Workspaces = now, ours
				match, err := Find(t.Context(), q, []Source{m.source()}, readers(m))
				took := time.Since(now)
				got := fmt.Sprint(match.Conversation, " ", match.Step)
				if match.Reader == nil {
					got += " unverified"
				}
				if err != nil {
					class, text, _ := strings.Cut(r.want, " ")
					if got = fmt.Sprint(perigee.AsError(err).Class, " ", err); string(perigee.AsError(err).Class) == class && strings.Contains(err.Error(), text) {
						got = r.want
					}
					if errors.Is(err, ErrAmbiguous) != (class == "unavailable") {
						t.Errorf("%v is wrapped or not", ErrAmbiguous)
					}
				}
				if got != r.want {
					t.Errorf("got %s, want %s", got, r.want)
				}
				if took > r.took {
					t.Errorf("it took %v, want at most %v", took, r.took)
				}
				report := strings.Join(problems(match), "\n")
				if !strings.Contains(report, r.report) || (report == "") != (r.report == "") {
					t.Errorf("reported %q, want %q", report, r.report)
				}
				if strings.Contains(report, "hello") {
					t.Errorf("the report has the prompt: %s", report)
				}
				if m.listings > 20 || m.readings > 20*maxCandidates {
					t.Errorf("%d listings and %d readings", m.listings, m.readings)
				}
				// The search is over, and nothing asks any more.
				listings := m.listings
				time.Sleep(time.Hour)
				if m.listings != listings {
					t.Error("it is asked after the search")
				}
			})
		})
	}
}

func TestWithoutSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, err := Find(t.Context(), Query{Prompt: "x"}, nil, nil); perigee.AsError(err).Class != perigee.ClassNotFound || time.Since(began) != 0 {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		if _, err := Find(t.Context(), Query{Prompt: " \n"}, []Source{newMemory().source()}, nil); perigee.AsError(err).Class != perigee.ClassInvalid {
			t.Errorf("got %v", err)
		}
	})
}

func TestFindIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("left")
		time.AfterFunc(2*time.Second, func() { cancel(cause) })
		began := time.Now()
		if _, err := Find(ctx, Query{Prompt: "x"}, []Source{newMemory().source()}, nil); !errors.Is(err, cause) || time.Since(began) != 2*time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

// A hangingReader never answers.
type hangingReader struct{ *memory }

// Steps hangs, in a bubble.
func (hangingReader) Steps(ctx context.Context, _ string, _ int) ([]*geminicoder.Step, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A search that has no time reads nothing, not even the conversation that it names.
func TestFindWithoutTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := newMemory()
	if _, err := Find(ctx, Query{Prompt: "x", Conversation: "c"}, nil, readers(m)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// hangingSource never answers.
var hangingSource = Source{"memory", func(ctx context.Context) (Listing, error) {
	<-ctx.Done()
	return Listing{}, ctx.Err()
}}

// A source or a reader that hangs does not keep the next one from being asked.
func TestOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		now := time.Now()
		for i := range 20 {
			m.put(at(fmt.Sprint("other", i), now.Add(time.Second), "/code/a"), said("x", now))
		}
		m.put(at("c1", now, "/code/a"), said("hello", now))
		match, err := Find(t.Context(), Query{Prompt: "hello", Workspaces: ours}, []Source{hangingSource, m.source()}, readers(hangingReader{m}, m))
		if err != nil || match.Conversation != "c1" || match.Reader != m || time.Since(now) > 5*time.Second {
			t.Errorf("got %+v, %v after %v", match, err, time.Since(now))
		}
		began := time.Now()
		_, err = Find(t.Context(), Query{Prompt: "hello", Workspaces: ours}, []Source{hangingSource, m.source()}, readers(hangingReader{m}))
		if perigee.AsError(err).Class != perigee.ClassNotFound || time.Since(began) > defaultWindow {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

// Two sources know different things of one conversation.
func TestSourcesAreMerged(t *testing.T) {
	now := time.Now()
	a := Summary{ID: "c", Modified: now.Add(-time.Minute), Steps: 3, Created: now}
	b := Summary{ID: "c", Modified: now, Steps: 5, Workspaces: []string{"/w"}, InputStep: 4, LastInput: now}
	for _, pair := range [][2]Summary{{a, b}, {b, a}} {
		got := pair[0]
		got.merge(pair[1])
		if got.Steps != 5 || got.InputStep != 4 || got.Modified != now || got.Workspaces[0] != "/w" || got.Created != now || got.LastInput != now {
			t.Errorf("got %+v", got)
		}
	}
}

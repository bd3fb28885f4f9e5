package tracecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/daemon/remote"
	"perigee/internal/lib/match"
	"perigee/internal/lib/redact"
	"perigee/internal/lib/terminal"
	"perigee/internal/observe/trace/replay"
	"perigee/internal/observe/trace/story"
	"perigee/internal/store/config"
)

// compareCalls sends recorded calls again to other models, and compares the answers.
func compareCalls(ctx context.Context, env *cli.Env, args []string) error {
	list := env.Flags.String("models", "", "")
	s := selection{last: 10}
	env.Flags.IntVar(&s.last, "last", s.last, "")
	env.Flags.StringVar(&s.model, "model", "", "")
	env.Flags.StringVar(&s.client, "client", "", "")
	env.Flags.StringVar(&s.key, "key", "", "")
	env.Flags.StringVar(&s.session, "session", "", "")
	since, yes := env.Flags.String("since", "", ""), env.Flags.Bool("yes", false, "")
	c := comparison{env: env}
	env.Flags.BoolVar(&c.diff, "diff", false, "")
	_, err := env.Parse(args, 0)
	if err != nil {
		return err
	}
	if c.models, err = modelList(*list); err != nil {
		return err
	}
	if s.last < 1 || s.last > maxRows {
		return cli.Usagef("trace: --last expects a number from 1 to %d", maxRows)
	}
	if s.since, _, err = cli.ParsePeriod("trace", *since, "", time.Now()); err != nil {
		return err
	}
	client, loaded, err := reach(ctx, env, "send calls again")
	if err != nil {
		return err
	}
	c.client, c.cfg = client, loaded.Config
	plan, err := newPlan(ctx, &c, &s)
	if err != nil {
		return err
	}
	if err := plan.print(env); err != nil {
		return err
	}
	if !*yes {
		if err := plan.confirm(ctx, env); err != nil {
			return err
		}
	}
	return c.run(ctx, plan.calls)
}

// modelList reads the value of --models.
func modelList(list string) (models []string, err error) {
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
			return nil, cli.Usagef("trace: compare needs --models with one or several names: --models A,B")
		case slices.Contains(models, name):
			return nil, cli.Usagef("trace: --models has %s twice", terminal.Printable(name))
		}
		models = append(models, name)
	}
	return models, nil
}

const (
	maxRows = 1000 // of a listing
	// maxSearched is how many calls are looked through for those that can be sent again. There are at
	// most as many traces.
	maxSearched = 10_000
)

// A selection describes the calls to be sent again. Empty patterns match all calls.
type selection struct {
	last                        int
	since                       time.Time
	model, client, key, session string
}

// find returns the selected calls, the oldest first: requests for answers that have ended, with
// recorded bodies. It never returns an empty list without an error.
func (s *selection) find(ctx context.Context, client *remote.Client) (calls []perigee.Trace, err error) {
	filter := map[string]string{"limit": strconv.Itoa(maxRows), "model": s.model, "client": s.client, "key": s.key,
		"since": command.Timestamp(s.since)}
	searched, matching := 0, 0
	for more := true; more; {
		rows, err := remote.Ask[[]perigee.TraceRow](ctx, client, http.MethodGet, "/v1/traces?"+command.Parameters(filter).Encode(), nil)
		if err != nil {
			return nil, command.Misused(err)
		}
		for i := range rows {
			filter["before"] = rows[i].ID
			if s.session != "" && !match.Pattern(s.session, rows[i].Session) {
				continue
			}
			matching++
			if !sendable(&rows[i]) {
				continue
			}
			call, err := callRecord(ctx, client, rows[i].ID)
			if err != nil {
				return nil, err
			}
			if call.Operation != perigee.OperationGenerate {
				continue
			}
			if calls = append(calls, call); len(calls) == s.last {
				slices.Reverse(calls)
				return calls, nil
			}
		}
		searched += len(rows)
		more = len(rows) == maxRows && searched < maxSearched
	}
	slices.Reverse(calls)
	return calls, s.none(len(calls), matching)
}

// unlike are the dialects of calls that are not compared: asks of MCP clients and calls of language
// servers cannot be sent again, and models of conversations generate no images on their own.
var unlike = []perigee.Dialect{perigee.DialectMCP, perigee.DialectCloudCode, perigee.DialectOpenAIImages}

// sendable reports whether a call can be sent again to another model, as far as that is in its row.
func sendable(r *perigee.TraceRow) bool {
	return r.Bodies && r.Outcome != perigee.OutcomeOpen && !slices.Contains(unlike, r.Dialect)
}

// none returns the error of a selection without calls.
func (s *selection) none(found, matching int) error {
	switch {
	case found > 0:
		return nil
	case matching > 0:
		return perigee.Errorf(perigee.ClassNotFound, "none of the calls that match can be sent again (%d looked at): there is no recorded request of a conversation", matching).
			WithHint("with traces.bodies: true and traces.keep above 0 in the configuration, requests are recorded from now on")
	case *s == selection{last: s.last}:
		return perigee.Errorf(perigee.ClassNotFound, "no calls recorded yet")
	}
	return perigee.Errorf(perigee.ClassNotFound, "no recorded call matches").WithHint("perigee trace list shows recent calls")
}

// A comparison sends calls to models.
type comparison struct {
	env     *cli.Env
	client  *remote.Client
	cfg     *config.Config
	models  []string
	diff    bool       // print the differences in full
	results []compared // so far
}

// A compared is the answer of a model to a call that was sent again, as JSON.
type compared struct {
	perigee.Trace               // of the new call; without an ID if the call could not be sent
	story.Result                // how its answer differs from the recorded one
	Original      perigee.Trace `json:"original"`
	asked         string        // the model of the command line
	answer        story.Answer
}

// failed reports whether a call has failed. One that answers in the background is open, and has not.
func failed(t *perigee.Trace) bool {
	return t.Outcome != perigee.OutcomeDone && t.Outcome != perigee.OutcomeOpen
}

// run sends each call to each model, one after the other, and prints the results. A model that
// fails does not stop it, but the end of ctx and of the daemon do.
func (c *comparison) run(ctx context.Context, calls []perigee.Trace) error {
	progress := c.env.Progress(ctx)
	defer progress.Close()
	progress.Step("sending %s", terminal.Number(len(calls)*len(c.models), "call", "calls"))
	var stopped error
	for i := range calls {
		if stopped != nil {
			break
		}
		var was story.Answer
		first := len(c.results)
		was, stopped = c.recorded(ctx, &calls[i])
		for j, model := range c.models {
			progress.Update("sending call %d of %d to %s", i+1, len(calls), model)
			var result compared
			if stopped == nil {
				result, stopped = c.send(ctx, &calls[i], was, model, j == 0)
			}
			if stopped != nil {
				break
			}
			c.results = append(c.results, result)
		}
		if done := c.results[first:]; len(done) > 0 && !c.env.JSON {
			var err error
			progress.Around(func() { err = c.printCall(&calls[i], was, done) })
			if err != nil {
				return err
			}
		}
	}
	progress.Close()
	return c.end(ctx, len(calls)*len(c.models), stopped)
}

// recorded returns the recorded answer to a call, without secrets. If it cannot be read, it is
// empty, with a remark. The error is the one of ctx.
func (c *comparison) recorded(ctx context.Context, call *perigee.Trace) (story.Answer, error) {
	body, err := firstAnswer(ctx, c.env, c.cfg, call)
	if err != nil && ctx.Err() == nil {
		c.env.Remark("the recorded answer of call %s cannot be read: %v", call.ID, err)
	}
	return c.read(body, call), ctx.Err()
}

// read returns an answer without secrets.
func (c *comparison) read(body []byte, record *perigee.Trace) story.Answer {
	return story.ReadAnswer(body, record).Redacted(redact.New(c.cfg.Secrets()...).Text)
}

// send sends a call to a model. The error is one after which no further call is sent.
func (c *comparison) send(ctx context.Context, call *perigee.Trace, was story.Answer, model string, warn bool) (compared, error) {
	result := compared{Original: *call, asked: model}
	record, body, err := c.exchange(ctx, call.ID, model, warn)
	switch {
	case ctx.Err() != nil:
		return result, ctx.Err()
	case errors.Is(err, daemon.ErrNoAnswer):
		return result, err
	case err != nil:
		unsent := perigee.Call{Time: time.Now().UTC(), Dialect: call.Dialect, Operation: call.Operation, ModelAsked: model, ReplayOf: call.ID,
			Outcome: perigee.OutcomeFailed, Class: perigee.AsError(err).Class, Error: err.Error()}
		record = unsent.Trace()
	}
	result.Trace, result.answer = record, c.read(body, &record)
	result.Result = story.Compare(was, result.answer)
	return result, nil
}

// exchange sends a call to a model, and returns the new call and its answer.
func (c *comparison) exchange(ctx context.Context, id, model string, warn bool) (record perigee.Trace, body []byte, err error) {
	r, resp, err := sendAgain(ctx, c.client, id, replay.Change{Model: model})
	if err != nil {
		return record, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if warning := resp.Header.Get(replay.WarningHeader); warning != "" && warn {
		c.env.Remark("call %s: %s", id, warning)
	}
	if body, err = io.ReadAll(resp.Body); err != nil {
		return record, nil, fmt.Errorf("the answer broke off: %w", err)
	}
	record, err = callRecord(ctx, c.client, r.id)
	return record, body, err
}

// end prints the sums and returns the error of the command. stopped is why not all of the calls
// were sent.
func (c *comparison) end(ctx context.Context, all int, stopped error) error {
	err := c.printEnd()
	failures := 0
	for i := range c.results {
		if failed(&c.results[i].Trace) {
			failures++
		}
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("trace: interrupted after %d of %s", len(c.results), terminal.Number(all, "call", "calls"))
	case stopped != nil:
		return fmt.Errorf("%w; %d of %s were answered", stopped, len(c.results), terminal.Number(all, "call", "calls"))
	case failures > 0:
		return fmt.Errorf("trace: %d of %s failed", failures, terminal.Number(all, "call", "calls"))
	}
	return nil
}

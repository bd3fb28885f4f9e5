package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/httpapi"
	"perigee/internal/sqlstore"
)

var traceCommand = command{
	name:    "trace",
	summary: "show what happened to a call",
	run:     trace,
	usage: `  perigee trace list
  perigee trace show 01ktqe5x1v6n0q3hw8zd

Tells of recorded calls, with or without a running daemon: who was asked and
why, what went wrong, what was changed on the way. The header x-perigee-call of
every answer has the call's id. Times are those of this machine's time zone,
and of UTC in JSON.

  list             the newest calls first
    --limit N      so many of them, 1000 at most (default 20)
    --before ID    only calls older than this one
  show ID          one call in full
  --json           as JSON: list an array, show an object
  --config FILE    the configuration
`,
}

func trace(ctx context.Context, env *environment, args []string) error {
	if len(args) == 0 {
		return usagef("trace: say list or show ID; perigee help trace tells more")
	}
	src := config.Sources{Spare: noSecrets}
	set := flags(env, &src.Path)
	asJSON := set.Bool("json", false, "")
	switch verb, rest := args[0], args[1:]; verb {
	case "list":
		limit, before := set.Int("limit", 20, ""), set.String("before", "", "")
		if err := parse(env, set, rest, 0); err != nil {
			return err
		}
		if *limit < 1 || *limit > 1000 {
			return usagef("trace: --limit takes a number from 1 to 1000")
		}
		return listTraces(ctx, env, src, perigee.CallQuery{Limit: *limit, Before: *before}, *asJSON)
	case "show":
		ids, err := parseAround(env, set, rest)
		switch {
		case err != nil:
			return err
		case len(ids) == 0 || ids[0] == "":
			return usagef("trace: show wants the id of a call; perigee trace list has them")
		case len(ids) > 1:
			return usagef("trace: unexpected argument %q; perigee help trace tells more", ids[1])
		}
		return showTrace(ctx, env, src, ids[0], *asJSON)
	case "-h", "-help", "--help":
		return parse(env, set, args, 0)
	case "replay", "bundle":
		return usagef("trace: %s is not in this version; say list or show ID", verb)
	default:
		return usagef("trace: no such thing as %q; say list or show ID", verb)
	}
}

func listTraces(ctx context.Context, env *environment, src config.Sources, q perigee.CallQuery, asJSON bool) error {
	loaded, err := config.Load(src)
	if err != nil {
		return err
	}
	query := url.Values{"limit": {strconv.Itoa(q.Limit)}}
	if q.Before != "" {
		query.Set("before", q.Before)
	}
	rows, err := readRecorded(ctx, env, loaded.Config, "/v1/traces?"+query.Encode(), func(store *sqlstore.Store) (rows []perigee.TraceRow, err error) {
		calls, err := store.Calls(ctx, q)
		for i := range calls {
			rows = append(rows, httpapi.TraceRow(&calls[i]))
		}
		return rows, err
	})
	if err != nil {
		return err
	}
	zone := zoneNow()
	return list(env, asJSON, rows,
		column[perigee.TraceRow]{"ID", func(r perigee.TraceRow) any { return r.ID }},
		column[perigee.TraceRow]{"TIME (" + zone.String() + ")", func(r perigee.TraceRow) any { return r.Time.In(zone).Format(time.DateTime) }},
		column[perigee.TraceRow]{"MODEL", func(r perigee.TraceRow) any { return orDash(r.Model) }},
		column[perigee.TraceRow]{"UPSTREAM", func(r perigee.TraceRow) any { return orDash(r.Upstream) }},
		column[perigee.TraceRow]{"ACCOUNT", func(r perigee.TraceRow) any { return orDash(r.Account) }},
		column[perigee.TraceRow]{"RESULT", func(r perigee.TraceRow) any {
			if r.Outcome == perigee.OutcomeFailed {
				return r.Class // which says more
			}
			return r.Outcome
		}},
		column[perigee.TraceRow]{"MS", func(r perigee.TraceRow) any { return int64(r.DurationMS) }},
		column[perigee.TraceRow]{"IN", func(r perigee.TraceRow) any { return r.InputTokens }},
		column[perigee.TraceRow]{"OUT", func(r perigee.TraceRow) any { return r.OutputTokens }},
	)
}

// zoneNow is the time zone that this machine is in now, called by its offset, which holds for all rows of a listing.
func zoneNow() *time.Location {
	_, offset := time.Now().Zone()
	if offset == 0 {
		return time.UTC
	}
	return time.FixedZone(time.Now().Format("-07:00"), offset)
}

func showTrace(ctx context.Context, env *environment, src config.Sources, id string, asJSON bool) error {
	loaded, err := config.Load(src)
	if err != nil {
		return err
	}
	t, err := readRecorded(ctx, env, loaded.Config, "/v1/traces/"+url.PathEscape(id), func(store *sqlstore.Store) (t perigee.Trace, err error) {
		calls, err := store.Calls(ctx, perigee.CallQuery{ID: id})
		if len(calls) > 0 {
			t = httpapi.Trace(&calls[0])
		}
		return t, err
	})
	unknown := err == nil && t.ID == ""
	if e, ok := errors.AsType[*perigee.Error](err); unknown || ok && e.Class == perigee.ClassNotFound {
		err = perigee.Errorf(perigee.ClassNotFound, "there is no call %q", printable(id)).WithNext("perigee trace list shows the last ones")
	}
	if err != nil {
		return err
	}
	if asJSON {
		out := json.NewEncoder(env.stdout)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		return out.Encode(t)
	}
	return tellTrace(env.stdout, &t)
}

// tellTrace writes a call down for a person: what was asked, what was tried in order, what came of it.
func tellTrace(out io.Writer, t *perigee.Trace) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	line("call", "%s", t.ID)
	line("time", "%s", t.Time.Local().Format("2006-01-02T15:04:05.000Z07:00"))
	line("asked", "%s", strings.Join(present(dialectWord(t), t.Operation, t.ModelAsked, fmt.Sprintf("%d bytes", t.BytesIn)), ", "))
	line("by", "%s", strings.Join(present(strings.TrimSpace(t.ClientName+" "+t.ClientVersion), prefixed("key ", t.Key), prefixed("session ", t.Session)), ", "))
	for i, step := range t.Steps {
		result := "answered"
		if step.Class != "" {
			result = string(step.Class) + ": " + step.Error
		}
		line(fmt.Sprintf("try %d", i+1), "%s (%s; %s)", strings.Join(present(step.Upstream, step.Account, result), ", "), orDash(step.Why), step.Took.Round(time.Millisecond))
	}
	for _, note := range t.Notes {
		line("note", "%s", note)
	}
	switch {
	case t.FirstByteMS > 0 || t.Outcome == perigee.OutcomeDone:
		line("answered", "%s", strings.Join(present(t.Model, t.Upstream, t.Account), ", "))
	case t.Upstream != "":
		line("upstream", "%s", strings.Join(present(t.Upstream, t.Account), ", "))
	}
	line("tokens", "%d in (%d cached), %d out (%d thinking)", t.InputTokens, t.CachedTokens, t.OutputTokens, t.ThinkingTokens)
	line("took", "%.0f ms, first byte after %.0f ms", t.DurationMS, t.FirstByteMS)
	line("result", "%s", strings.Join(present(string(t.Outcome), t.Finish, string(t.Class), t.Error), ", "))
	return w.Flush()
}

// dialectWord is what a person calls the dialect. Embeddings and pictures are OpenAI's, and no chat.
func dialectWord(t *perigee.Trace) string {
	drawn := strings.Contains(t.Model, "-image") // models that draw have it in their names
	if t.Dialect == perigee.DialectOpenAIChat && (t.Operation == perigee.OperationEmbed || drawn) {
		return "openai"
	}
	return string(t.Dialect)
}

// present leaves out what is empty.
func present(words ...string) []string {
	kept := words[:0]
	for _, word := range words {
		if word != "" {
			kept = append(kept, word)
		}
	}
	if len(kept) == 0 {
		return []string{"-"}
	}
	return kept
}

func prefixed(prefix, word string) string {
	if word == "" {
		return ""
	}
	return prefix + word
}

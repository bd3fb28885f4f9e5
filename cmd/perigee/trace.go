package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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
	usage: `usage: perigee trace list [--limit N] [--before ID] [--errors] [--model M]
         [--client C] [--account E] [--key K] [--since T] [--json]
       perigee trace show ID [--json]

  perigee trace list --errors --since 2d
  perigee trace show 01ktqe5x1v6n
  perigee trace show last

Shows recorded calls, with or without a running daemon: which upstream and
account answered and why, what failed, what was changed. The response header
x-perigee-call has the id of a call; a beginning of it that no other call
shares is enough, and "last" is the newest call. Times are in this machine's
time zone, and in UTC with --json.

  list             the newest calls first
    --limit N      at most N of them, up to 1000 (default 20)
    --before ID    only calls older than this one
    --errors       only calls that failed or broke off
    --model M      only calls that asked for M or were answered by it; here and
                   below * stands for any characters, ? for one
    --client C     only calls of this client program
    --account E    only calls made with this account
    --key K        only calls made with the key of this name
    --since T      only calls from then on: a day (UTC), today, yesterday, a
                   time as RFC 3339, or an age: 90m, 1h, 2d, 1w
  show ID          one call in full
  --json           as JSON: list an array, show an object
  --config FILE    the configuration
`,
}

func trace(ctx context.Context, env *environment, args []string) error {
	if len(args) == 0 {
		return usagef("trace: use list or show ID; perigee help trace tells more")
	}
	src := config.Sources{Spare: noSecrets}
	set := flags(env, &src.Path)
	asJSON := set.Bool("json", false, "")
	switch verb, rest := args[0], args[1:]; verb {
	case "list":
		var q perigee.CallQuery
		set.IntVar(&q.Limit, "limit", 20, "")
		set.StringVar(&q.Before, "before", "", "")
		set.BoolVar(&q.Errors, "errors", false, "")
		set.StringVar(&q.Model, "model", "", "")
		set.StringVar(&q.Client, "client", "", "")
		set.StringVar(&q.Account, "account", "", "")
		set.StringVar(&q.Key, "key", "", "")
		since := set.String("since", "", "")
		if err := parse(env, set, rest, 0); err != nil {
			return err
		}
		if q.Limit < 1 || q.Limit > 1000 {
			return usagef("trace: --limit takes a number from 1 to 1000")
		}
		var err error
		if q.Since, _, err = period("trace", *since, "", time.Now()); err != nil {
			return err
		}
		return listTraces(ctx, env, src, q, *asJSON)
	case "show":
		ids, err := parseAround(env, set, rest)
		switch {
		case err != nil:
			return err
		case len(ids) == 0 || ids[0] == "":
			return usagef("trace: show needs the id of a call, or last; perigee trace list has them")
		case len(ids) > 1:
			return usagef("trace: unexpected argument %q; perigee help trace tells more", ids[1])
		}
		return showTrace(ctx, env, src, ids[0], *asJSON)
	case "-h", "-help", "--help":
		return parse(env, set, args, 0)
	case "replay", "bundle":
		return usagef("trace: %s is not in this version; use list or show ID", verb)
	default:
		return usagef("trace: unknown subcommand %q; use list or show ID", verb)
	}
}

// storedTraces are the calls of a listing without a daemon.
func storedTraces(ctx context.Context, store *sqlstore.Store, q perigee.CallQuery) (rows []perigee.TraceRow, err error) {
	if q.Before != "" {
		before, err := httpapi.FindCall(ctx, store, q.Before)
		if err != nil {
			return nil, err
		}
		q.Before = before.ID
	}
	calls, err := store.Calls(ctx, q)
	for i := range calls {
		rows = append(rows, httpapi.TraceRow(&calls[i]))
	}
	return rows, err
}

func listTraces(ctx context.Context, env *environment, src config.Sources, q perigee.CallQuery, asJSON bool) error {
	loaded, err := config.Load(src)
	if err != nil {
		return err
	}
	parameters := traceParameters(q)
	filter := httpapi.TraceFilter(parameters, keyNames(loaded.Config))
	rows, err := readRecorded(ctx, env, loaded.Config, "/v1/traces?"+parameters.Encode(), func(store *sqlstore.Store) ([]perigee.TraceRow, error) {
		rows, err := storedTraces(ctx, store, q)
		recordReading(ctx, env, loaded, perigee.AuditEntry{Action: perigee.AuditTraceList, Object: filter, Detail: httpapi.TracesRead(len(rows))}, err)
		return rows, err
	})
	if err != nil {
		return noCall(err, q.Before)
	}
	zone, now, digits := zoneNow(), time.Now(), idDigits(rows)
	timeHead := "TIME (" + zone.String() + ")"
	if env.width() > 0 {
		timeHead = "TIME"
	}
	return list(env, asJSON, rows,
		column[perigee.TraceRow]{"ID", func(r perigee.TraceRow) any { return either{r.ID, r.ID[:min(digits, len(r.ID))]} }},
		column[perigee.TraceRow]{timeHead, func(r perigee.TraceRow) any {
			if env.width() > 0 {
				return timeOfDay(r.Time.In(zone), now.In(zone))
			}
			return r.Time.In(zone).Format(time.DateTime)
		}},
		column[perigee.TraceRow]{"MODEL", func(r perigee.TraceRow) any { return askedAndAnswered(r) }},
		column[perigee.TraceRow]{"UPSTREAM", func(r perigee.TraceRow) any { return orDash(r.Upstream) }},
		column[perigee.TraceRow]{"ACCOUNT", func(r perigee.TraceRow) any { return orDash(r.Account) }},
		column[perigee.TraceRow]{"STATUS", func(r perigee.TraceRow) any { return orNone(r.Status) }},
		column[perigee.TraceRow]{"RESULT", func(r perigee.TraceRow) any {
			if r.Outcome == perigee.OutcomeFailed {
				return r.Class // which says more
			}
			return r.Outcome
		}},
		column[perigee.TraceRow]{"KEY", func(r perigee.TraceRow) any { return orDash(r.Key) }},
		column[perigee.TraceRow]{"CLIENT", func(r perigee.TraceRow) any { return orDash(r.ClientName) }},
		column[perigee.TraceRow]{"MS", func(r perigee.TraceRow) any { return decimal(r.DurationMS) }},
		column[perigee.TraceRow]{"IN", func(r perigee.TraceRow) any { return amount(r.InputTokens) }},
		column[perigee.TraceRow]{"OUT", func(r perigee.TraceRow) any { return amount(r.OutputTokens) }},
	)
}

// traceParameters are a query as the daemon takes it.
func traceParameters(q perigee.CallQuery) url.Values {
	query := url.Values{"limit": {strconv.Itoa(q.Limit)}}
	for name, value := range map[string]string{"before": q.Before, "model": q.Model, "client": q.Client, "account": q.Account, "key": q.Key} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if q.Errors {
		query.Set("errors", "true")
	}
	if !q.Since.IsZero() {
		query.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	return query
}

// shortestID is how many characters of an id are shown at least. The first ten are the time in milliseconds.
const shortestID = 12

// idDigits is how many characters tell the ids of a listing apart.
func idDigits(rows []perigee.TraceRow) int {
	digits := shortestID
	for ; digits < 20; digits++ {
		seen := map[string]bool{}
		for _, r := range rows {
			seen[r.ID[:min(digits, len(r.ID))]] = true
		}
		if len(seen) == len(rows) {
			break
		}
	}
	return digits
}

// timeOfDay is a time as a listing at a terminal has it: without the date today, without the seconds on other days.
func timeOfDay(t, now time.Time) string {
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format("2006-01-02 15:04")
}

// askedAndAnswered is the model that was asked, and the one that answered where that is another.
func askedAndAnswered(r perigee.TraceRow) string {
	if r.ModelAsked != "" && r.ModelAsked != r.Model {
		return r.ModelAsked + " → " + r.Model
	}
	return orDash(r.Model)
}

func orNone(status int) any {
	if status == 0 {
		return "-"
	}
	return status
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
		found, err := httpapi.FindCall(ctx, store, id)
		if err == nil {
			t = httpapi.Trace(found)
		}
		recordReading(ctx, env, loaded, perigee.AuditEntry{Action: perigee.AuditTraceRead, Object: cmp.Or(t.ID, id)}, err)
		return t, err
	})
	if err == nil && t.ID == "" { // nothing was ever recorded
		err = perigee.Errorf(perigee.ClassNotFound, "there is no call %q", printable(id))
	}
	if err != nil {
		return noCall(err, id)
	}
	if asJSON {
		out := json.NewEncoder(env.stdout)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		return out.Encode(t)
	}
	return tellTrace(env.stdout, env.width(), &t)
}

// noCall gives an error about a call that there is not, or about several that may be meant, the advice that fits a command.
func noCall(err error, id string) error {
	e, ok := errors.AsType[*perigee.Error](err)
	switch {
	case ok && e.Class == perigee.ClassNotFound && id == httpapi.LastCall:
		return perigee.Errorf(perigee.ClassNotFound, "no calls recorded yet")
	case ok && e.Class == perigee.ClassNotFound:
		return perigee.Errorf(perigee.ClassNotFound, "there is no call %q", printable(id)).WithNext("perigee trace list shows the last ones")
	}
	return misused(err)
}

// tellTrace writes a call down for a person: what was asked, what was tried in order, what came of it. At a terminal of that
// width, long lines are folded at their words beside the names.
func tellTrace(out io.Writer, width int, t *perigee.Trace) error {
	const names = 10
	var b strings.Builder
	line := func(name, format string, args ...any) {
		lines := []string{printable(fmt.Sprintf(format, args...))}
		if width > 2*names {
			lines = foldWords(lines[0], width-names, false)
		}
		for i, text := range lines {
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(&b, "%-*s%s\n", names, name, text)
		}
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
	if t.FirstByteMS > 0 {
		line("took", "%.1f ms, first byte after %.1f ms", t.DurationMS, t.FirstByteMS)
	} else {
		line("took", "%.1f ms", t.DurationMS)
	}
	if t.Status != 0 {
		line("status", "%d %s", t.Status, http.StatusText(t.Status))
	}
	line("result", "%s", strings.Join(present(string(t.Outcome), t.Finish, string(t.Class), t.Error), ", "))
	_, err := io.WriteString(out, b.String())
	return err
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

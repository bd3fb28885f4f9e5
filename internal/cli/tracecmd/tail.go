package tracecmd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon/remote"
	"perigee/internal/lib/terminal"
	"perigee/internal/observe/live"
)

// tailCalls follows calls until it is interrupted.
func tailCalls(ctx context.Context, env *cli.Env, args []string) error {
	values := map[string]*string{}
	for _, name := range []string{"model", "client", "account", "key"} {
		values[name] = env.Flags.String(name, "", "")
	}
	failed, text := env.Flags.Bool("errors", false, ""), env.Flags.Bool("text", false, "")
	since := env.Flags.String("since", "", "")
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	from, _, err := cli.ParsePeriod("trace", *since, "", time.Now())
	if err != nil {
		return err
	}
	client, _, err := reach(ctx, env, "show calls as they happen")
	if err != nil {
		return err
	}
	filter := map[string]string{}
	for name, value := range values {
		filter[name] = *value
	}
	for name, on := range map[string]bool{"errors": *failed, "text": *text} {
		if on {
			filter[name] = "true"
		}
	}
	resp, err := client.Open(ctx, http.MethodGet, live.Path+"?"+command.Parameters(filter).Encode())
	if err != nil {
		return interrupted(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return command.Misused(remote.Refusal(resp))
	}
	t := tailer{env: env, zone: command.Zone(), palette: terminal.PaletteOf(env.Stdout)}
	if !from.IsZero() {
		delete(filter, "text")
		filter["since"], filter["limit"] = command.Timestamp(from), strconv.Itoa(maxRecent)
		if err := t.recent(ctx, client, filter); err != nil {
			return interrupted(ctx, err)
		}
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if err := t.print(lines.Bytes()); err != nil {
			return err
		}
	}
	return interrupted(ctx, ended(lines.Err()))
}

// maxRecent is how many calls --since shows at most.
const maxRecent = 1000

// recent prints calls that have ended, the oldest first. Calls are being followed already, so that
// none is missed; those that are printed here are not printed again.
func (t *tailer) recent(ctx context.Context, client *remote.Client, filter map[string]string) error {
	rows, err := remote.Ask[[]perigee.TraceRow](ctx, client, http.MethodGet, "/v1/traces?"+command.Parameters(filter).Encode(), nil)
	if err != nil {
		return command.Misused(err)
	}
	shown := map[string]bool{}
	for i := range slices.Backward(rows) {
		if rows[i].Outcome == perigee.OutcomeOpen {
			continue
		}
		line, err := json.Marshal(live.Line{Event: live.Ended.String(), ID: rows[i].ID, Call: &rows[i]})
		if err == nil {
			err = t.print(line)
		}
		if err != nil {
			return err
		}
		shown[rows[i].ID] = true
	}
	t.shown = shown
	return nil
}

// interrupted returns err, or nil if the user has ended the command.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// A tailer prints lines.
type tailer struct {
	env     *cli.Env
	zone    *time.Location
	palette terminal.Palette
	shown   map[string]bool // calls that recent has printed
	// writing is the ID of the call and the kind of the text on the last line. It is empty if that
	// line has ended.
	writing string
}

// print prints a line of the daemon's.
func (t *tailer) print(raw []byte) error {
	var l live.Line
	if err := json.Unmarshal(raw, &l); err != nil {
		return fmt.Errorf("the daemon's answer cannot be read, it may be of another version: %w", err)
	}
	switch {
	case t.shown[l.ID]:
		return nil
	case l.Event == live.Behind:
		return fmt.Errorf("calls come faster than they can be printed; use a filter")
	case l.Event == live.Following:
		if t.env.Width() > 0 {
			t.env.Remark("following calls; Ctrl-C ends")
		}
		return nil
	case t.env.JSON:
		_, err := fmt.Fprintf(t.env.Stdout, "%s\n", raw)
		return err
	case l.Call == nil:
		return t.piece(&l)
	case l.Event == live.Started.String():
		return nil // the last line names the upstream
	}
	return t.write(t.breakLine() + t.call(&l) + "\n")
}

func (t *tailer) write(text string) error {
	_, err := fmt.Fprint(t.env.Stdout, text)
	return err
}

// breakLine ends the line of a text.
func (t *tailer) breakLine() string {
	if t.writing == "" {
		return ""
	}
	t.writing = ""
	return "\n"
}

// piece prints a further piece of an answer, on the same line as the one before it if that is of
// the same answer.
func (t *tailer) piece(l *live.Line) error {
	colour, text := "", l.Text
	switch l.Event {
	case live.Thinking.String():
		colour = terminal.Faint
	case live.Tool.String():
		return t.write(t.breakLine() + t.label(l.ID) + t.palette.Paint("calls "+terminal.Printable(text), terminal.Strong) + "\n")
	}
	var b strings.Builder
	if of := l.ID + " " + l.Event; t.writing != of {
		b.WriteString(t.breakLine() + t.label(l.ID))
		t.writing = of
	}
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteString("\n" + t.label(l.ID))
		}
		b.WriteString(t.palette.Paint(printable(line), colour))
	}
	return t.write(b.String())
}

// shortID is how much of an ID is shown, which names a call among recent ones.
const shortID = 14

func (t *tailer) label(id string) string {
	return t.palette.Paint("  "+terminal.Printable(id[:min(len(id), shortID)])+" | ", terminal.Faint)
}

// call returns the line of a call that begins or ends.
func (t *tailer) call(l *live.Line) string {
	c := l.Call
	at, result, colour := c.Time, string(c.Outcome), terminal.Good
	var words []string
	if l.Event == live.Began.String() {
		result, colour = l.Event, ""
		words = []string{string(c.Dialect), c.ModelAsked, c.ClientName}
		if c.Key != "" {
			words = append(words, "key "+c.Key)
		}
	} else {
		at = at.Add(time.Duration(c.DurationMS * float64(time.Millisecond)))
		words = []string{c.Model, c.Upstream, c.Account, fmt.Sprint(c.Status), terminal.Duration(time.Duration(c.DurationMS * float64(time.Millisecond)))}
		if c.InputTokens+c.OutputTokens > 0 {
			words = append(words, fmt.Sprintf("%d in, %d out", c.InputTokens, c.OutputTokens))
		}
		if c.Class != "" {
			result, colour = string(c.Class), terminal.Bad
			words = append(words, l.Error)
		}
		if c.Outcome == perigee.OutcomeCanceled {
			colour = terminal.Warning
		}
	}
	line := t.palette.Paint(fmt.Sprintf("%-10s", result), colour)
	text := ""
	for _, word := range words {
		if word != "" {
			text += "  " + terminal.Printable(word)
		}
	}
	return at.In(t.zone).Format("15:04:05.000") + "  " + terminal.Printable(c.ID[:min(len(c.ID), shortID)]) + "  " + line + strings.TrimRight(text, " ")
}

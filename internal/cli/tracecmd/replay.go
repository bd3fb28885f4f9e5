package tracecmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/daemon/remote"
	"perigee/internal/lib/redact"
	"perigee/internal/lib/terminal"
	"perigee/internal/observe/trace"
	"perigee/internal/observe/trace/replay"
	"perigee/internal/observe/trace/story"
	"perigee/internal/store/config"
)

// replayCall sends a recorded call again.
func replayCall(ctx context.Context, env *cli.Env, args []string) error {
	var change replay.Change
	env.Flags.StringVar(&change.Upstream, "upstream", "", "")
	env.Flags.StringVar(&change.Model, "model", "", "")
	env.Flags.BoolVar(&change.Raw, "raw", false, "")
	diff := env.Flags.Bool("diff", false, "")
	id, err := oneCall(env, "replay", args)
	if err != nil {
		return err
	}
	if change.Raw && *diff {
		return cli.Usagef("trace: --raw prints the answer of the provider, which --diff cannot compare; use one of them")
	}
	client, loaded, err := reach(ctx, env, "send a call again")
	if err != nil {
		return err
	}
	progress := env.Progress(ctx)
	defer progress.Close()
	progress.Step("sending the call again")
	r, resp, err := sendAgain(ctx, client, id, change)
	if err != nil {
		return refused(err, id)
	}
	defer func() { _ = resp.Body.Close() }()
	if warning := resp.Header.Get(replay.WarningHeader); warning != "" {
		env.Remark("%s", warning)
	}
	if *diff || env.JSON {
		if r.body, err = io.ReadAll(resp.Body); err != nil {
			return fmt.Errorf("the answer broke off: %w", err)
		}
		progress.Close()
		if *diff {
			return r.diff(ctx, env, loaded.Config)
		}
		return r.print(ctx, env)
	}
	progress.Close()
	out := &lastByte{to: env.Stdout}
	if _, err = io.Copy(out, resp.Body); err != nil {
		return fmt.Errorf("the answer broke off: %w", err)
	}
	if env.Width() > 0 && out.last != '\n' {
		fmt.Fprintln(env.Stdout)
	}
	return r.result(ctx, env)
}

// sendAgain sends a call again. The caller closes the body of the answer.
func sendAgain(ctx context.Context, client *remote.Client, id string, change replay.Change) (*replayResult, *http.Response, error) {
	path := replay.Path + url.PathEscape(id)
	if query := replay.QueryOf(change); len(query) > 0 {
		path += "?" + query.Encode()
	}
	resp, err := client.Open(ctx, http.MethodPost, path)
	if err != nil {
		return nil, nil, err
	}
	of := resp.Header.Get(replay.OfHeader)
	if of == "" {
		defer func() { _ = resp.Body.Close() }()
		return nil, nil, remote.Refusal(resp)
	}
	return &replayResult{client: client, of: of, id: resp.Header.Get("X-Perigee-Call"), status: resp.StatusCode}, resp, nil
}

// A lastByte is a writer that records the last byte.
type lastByte struct {
	to   io.Writer
	last byte
}

func (l *lastByte) Write(p []byte) (int, error) {
	if len(p) > 0 {
		l.last = p[len(p)-1]
	}
	return l.to.Write(p)
}

// A replayResult is a call that was sent again.
type replayResult struct {
	client *remote.Client
	of, id string // of the two calls
	status int
	body   []byte
}

// callRecord returns the record of a call.
func callRecord(ctx context.Context, client *remote.Client, id string) (perigee.Trace, error) {
	return remote.Ask[perigee.Trace](ctx, client, http.MethodGet, "/v1/traces/"+url.PathEscape(id), nil)
}

// result prints how the new call ended. It returns an error if the call failed.
func (r *replayResult) result(ctx context.Context, env *cli.Env) error {
	t, err := callRecord(ctx, r.client, r.id)
	if err != nil {
		return err
	}
	env.Remark("call %s repeats %s: %s", r.id, r.of, summary(&t))
	return r.failed(&t)
}

func summary(t *perigee.Trace) string {
	return fmt.Sprintf("%s, %.1f ms, %d tokens in, %d out", terminal.Joined(string(t.Outcome), t.Model, t.Upstream), t.DurationMS, t.InputTokens, t.OutputTokens)
}

// failed returns the error of a call that failed; nil if it did not.
func (r *replayResult) failed(t *perigee.Trace) error {
	if r.status == http.StatusOK && t.Outcome == perigee.OutcomeDone {
		return nil
	}
	return fmt.Errorf("the replay failed: %d %s: %s", t.Status, t.Class, t.Error)
}

// print prints the new call as JSON.
func (r *replayResult) print(ctx context.Context, env *cli.Env) error {
	t, err := callRecord(ctx, r.client, r.id)
	if err != nil {
		return err
	}
	err = cli.WriteJSON(env, struct {
		perigee.Trace
		Answer string `json:"answer"`
	}{t, string(r.body)})
	return errors.Join(err, r.failed(&t))
}

// diff prints the differences between the new answer and the first one.
func (r *replayResult) diff(ctx context.Context, env *cli.Env, cfg *config.Config) error {
	before, err := callRecord(ctx, r.client, r.of)
	if err != nil {
		return err
	}
	if before.Outcome == perigee.OutcomeOpen {
		return fmt.Errorf("call %s has not ended, so there is no answer to compare with", r.of)
	}
	now, err := callRecord(ctx, r.client, r.id)
	if err != nil {
		return err
	}
	body, err := firstAnswer(ctx, env, cfg, &before)
	if err != nil {
		return err
	}
	redactor := redact.New(cfg.Secrets()...)
	was, is := story.ReadAnswer(body, &before).Redacted(redactor.Text), story.ReadAnswer(r.body, &now).Redacted(redactor.Text)
	result := story.Compare(was, is)
	switch {
	case env.JSON:
		err = cli.WriteJSON(env, result)
	case result.Same:
		env.Remark("call %s has the same answer as %s", r.id, r.of)
	default:
		err = printDiff(env, story.Unified("call "+r.of, was, "call "+r.id, is))
	}
	return errors.Join(err, r.failed(&now))
}

// firstAnswer returns the answer that the client of a call got. A call that was not answered has an
// empty one.
func firstAnswer(ctx context.Context, env *cli.Env, cfg *config.Config, call *perigee.Trace) ([]byte, error) {
	t, err := replay.Open(ctx, trace.In(tracesDir(cfg)), &call.TraceRow)
	if err != nil {
		return nil, err
	}
	if why := t.Meta.Truncated[trace.ClientResponseName]; why != "" {
		env.Remark("%s of call %s is not complete (%s): the diff shows only a part", trace.ClientResponseName, call.ID, why)
	}
	body, err := t.Read(trace.ClientResponseName)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return body, err
}

// printDiff prints a unified diff, in colour where the terminal has it.
func printDiff(env *cli.Env, diff string) error {
	palette := terminal.PaletteOf(env.Stdout)
	var b bytes.Buffer
	for line := range strings.Lines(diff) {
		colour := ""
		switch text := strings.TrimRight(line, "\n"); {
		case strings.HasPrefix(text, "diff ") || strings.HasPrefix(text, "---") || strings.HasPrefix(text, "+++"):
			colour = terminal.Strong
		case strings.HasPrefix(text, "+"):
			colour = terminal.Good
		case strings.HasPrefix(text, "-"):
			colour = terminal.Bad
		}
		text, newline := strings.CutSuffix(line, "\n")
		b.WriteString(palette.Paint(printable(text), colour))
		if newline {
			b.WriteByte('\n')
		}
	}
	_, err := env.Stdout.Write(b.Bytes())
	return err
}

// printable is terminal.Printable, except that tabs stay.
func printable(text string) string {
	parts := strings.Split(text, "\t")
	for i := range parts {
		parts[i] = terminal.Printable(parts[i])
	}
	return strings.Join(parts, "\t")
}

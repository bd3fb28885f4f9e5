package mcpserver

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"perigee"
	"perigee/internal/lib/match"
)

func modelsTool() *tool {
	t := newTool("list_models", "List models", "Lists the models that perigee can ask, with their limits.",
		arguments(),
		object(prop("models", list(object(
			prop("id", text, "The name to ask it by."),
			prop("upstream", text, "The upstream that has it."),
			prop("context", integer, "Tokens that fit in; 0: unknown."),
			prop("output", integer, "Tokens that can come out; 0: unknown."),
			prop("thinking", boolean, "Whether it can think before it answers."),
			prop("alias_of?", text, "The model that answers under this name."),
			prop("default?", boolean, "Whether it answers requests that name no model."),
		)), "The models.")))
	t.run = func(ctx context.Context, c *call) (*mcp.CallToolResult, error) {
		if _, err := decode[struct{}](c); err != nil {
			return nil, err
		}
		control, done, err := c.server.o.Backend.Open(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
		list, err := control.Models(ctx, "", false)
		if err != nil {
			return nil, err
		}
		models := []perigee.ModelRow{}
		for _, row := range list.Rows {
			if c.caller.AllowsModel == nil || c.caller.AllowsModel(row.ID) {
				models = append(models, row)
			}
		}
		return structured(map[string]any{"models": models})
	}
	return t
}

func quotaTool() *tool {
	t := newTool("quota", "Quota", "Says how much of their quota the accounts have left, and when it is reset.",
		arguments(prop("model?", text, "Only this model. Default: all.")),
		object(prop("quota", list(object(
			prop("account", text, "The account."),
			prop("upstream", text, "Its upstream."),
			prop("model", text, "The model."),
			prop("group?", text, "The models that the provider counts together."),
			prop("pool", text, "The provider's pool that is counted."),
			prop("remaining", number, "What is left, from 0 to 1."),
			prop("resets_at?", text, "When it is whole again (RFC 3339)."),
			prop("runs_out_at?", text, "When it will be used up at the present rate (RFC 3339)."),
			prop("windows?", list(object(
				prop("window", text, "Its name, such as 5h or weekly."),
				prop("remaining", number, "What is left of it, from 0 to 1."),
				prop("resets_at?", text, "When it is whole again (RFC 3339)."),
			)), "The windows in which the provider counts."),
		)), "One row for each account and model.")))
	t.run = func(ctx context.Context, c *call) (*mcp.CallToolResult, error) {
		in, err := decode[struct {
			Model string `json:"model"`
		}](c)
		if err != nil {
			return nil, err
		}
		control, done, err := c.server.o.Backend.Open(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
		// The provider is queried again only for a trusted caller.
		list, err := control.Quota(ctx, c.caller.Trusted)
		if err != nil {
			return nil, err
		}
		rows := []perigee.QuotaRow{}
		for _, row := range list.Rows {
			if in.Model == "" || match.Pattern(strings.ToLower(in.Model), strings.ToLower(row.Model)) {
				rows = append(rows, row)
			}
		}
		return structured(map[string]any{"quota": rows})
	}
	return t
}

func usageTool() *tool {
	t := newTool("usage", "Usage", "Says how many calls were made, and what they have cost in tokens and US dollars at list price.",
		arguments(
			prop("by?", oneOf(perigee.UsageGroups...), "How to group them. Default: model."),
			prop("each?", oneOf(perigee.UsageGroups...), "A second way to group: one row for each group and value of it."),
			prop("since?", text, "Only calls since then: a time (2026-01-31T00:00:00Z) or a duration before now (24h, 7d). Default: all."),
		),
		object(prop("usage", list(object(
			prop("group", text, "The model, account, key, client, upstream, session, agent or day."),
			prop("each?", text, "The value of the second way to group."),
			prop("calls", integer, "Calls."),
			prop("input_tokens", integer, "Tokens of prompts."),
			prop("cached_tokens", integer, "Tokens of prompts that were cached."),
			prop("cache_write_tokens", integer, "Tokens of prompts that were written to a cache."),
			prop("output_tokens", integer, "Tokens of answers, with thinking."),
			prop("thinking_tokens", integer, "Tokens of thinking."),
			prop("errors", integer, "Calls that have failed."),
			prop("cost_usd?", number, "US dollars as the provider reports them, or at list price, of the calls whose model has a price. Left out if none has."),
			prop("unpriced_calls", integer, "Calls with tokens whose model has no price."),
		)), "One row for each group.")))
	t.run = runUsage
	return t
}

func runUsage(ctx context.Context, c *call) (*mcp.CallToolResult, error) {
	in, err := decode[struct {
		By    string `json:"by"`
		Each  string `json:"each"`
		Since string `json:"since"`
	}](c)
	if err != nil {
		return nil, err
	}
	q := perigee.UsageQuery{By: in.By, Each: in.Each}
	if q.By == "" {
		q.By = perigee.ByModel
	}
	for name, group := range map[string]string{"by": in.By, "each": in.Each} {
		if group != "" && !slices.Contains(perigee.UsageGroups, group) {
			return nil, perigee.Errorf(perigee.ClassInvalid, "usage cannot be grouped by %q", group).
				WithHint("%s is one of %s", name, strings.Join(perigee.UsageGroups, ", "))
		}
	}
	if in.Since != "" {
		if q.Since, err = parseSince(in.Since, c.server.o.Now()); err != nil {
			return nil, err
		}
	}
	if !c.caller.Trusted {
		q.Key = c.caller.Key
	}
	rows, err := c.server.o.Backend.Usage(ctx, q)
	if err != nil {
		return nil, err
	}
	return structured(map[string]any{"usage": append([]perigee.UsageRow{}, rows...)})
}

// parseSince parses a time, or a duration before now.
func parseSince(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 12); err == nil {
			return now.AddDate(0, 0, -int(n)), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, perigee.Errorf(perigee.ClassInvalid, "since: %q is neither a time nor a duration", text).
		WithHint("write it as 2026-01-31T00:00:00Z, 2026-01-31, 7d, 24h or 90m")
}

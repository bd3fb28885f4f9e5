package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/lib/match"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/config"
)

// explainDialects are the values of --dialect, the default first.
var explainDialects = []string{"chat", "responses", "messages", "gemini"}

// explain prints which upstream would answer a call for a model now, and why the rest would not.
func explain(ctx context.Context, env *cli.Env, args []string) error {
	dialect := env.Flags.String("dialect", explainDialects[0], "")
	suppositions := supposeFlags(env.Flags)
	rest, err := env.Parse(args, 1)
	switch {
	case err != nil:
		return err
	case len(rest) == 0 || rest[0] == "":
		return cli.Usagef("explain: missing argument; use perigee explain MODEL")
	case !slices.Contains(explainDialects, *dialect):
		return cli.Usagef("no dialect %q; use %s", *dialect, strings.Join(explainDialects, ", "))
	}
	q := perigee.RouteQuestion{Model: rest[0]}
	if err := suppositions(&q); err != nil {
		return err
	}
	loaded, err := command.Load(env, command.NoSecrets)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	handle, err := command.Connect(ctx, env, loaded, command.ExceptUpstreams)
	if err != nil {
		return command.Misused(err)
	}
	defer handle.Close()
	found, err := handle.ExplainRoute(ctx, q)
	if err != nil {
		return err
	}
	found.Dialect = *dialect
	if env.JSON {
		found.Steps, found.Local = nil, false
		err = cli.WriteJSON(env, found)
	} else {
		err = printRoute(env, loaded.Config, found)
	}
	if err != nil || found.Upstream != "" {
		return err
	}
	return perigee.Errorf(perigee.ClassUnavailable, "no upstream would answer a call for %s now", terminal.Printable(found.Model)).
		WithHint("%s", routeHint(found.Candidates))
}

// supposeFlags adds the flags for what conditions of routes depend on. After the flags have been
// parsed, read adds them to a question.
func supposeFlags(flags *flag.FlagSet) (read func(q *perigee.RouteQuestion) error) {
	agent, tokens := flags.String("agent", "", ""), flags.Int64("input-tokens", 0, "")
	images, tools := flags.Bool("images", false, ""), flags.Bool("tools", false, "")
	return func(q *perigee.RouteQuestion) error {
		flags.Visit(func(f *flag.Flag) {
			switch f.Name {
			case "agent":
				q.Agent = *agent
			case "input-tokens":
				q.InputTokens = tokens
			case "images":
				q.Images = images
			case "tools":
				q.Tools = tools
			}
		})
		switch {
		case !slices.Contains([]string{"", "main", "sub"}, *agent):
			return cli.Usagef("no agent %q; use main or sub", *agent)
		case *tokens < 0:
			return cli.Usagef("--input-tokens %d: use 0 or more", *tokens)
		}
		return nil
	}
}

// routeHint returns the hint for a model that no candidate would answer for. A model that no
// upstream has may have another name; a limit ends.
func routeHint(candidates []perigee.RouteCandidate) string {
	lacks := func(c perigee.RouteCandidate) bool { return strings.HasPrefix(c.Reason, "it has no model ") }
	routed := func(c perigee.RouteCandidate) bool {
		return !strings.HasPrefix(c.Reason, "models.routes sends ") && c.Reason != "it is not asked for this model"
	}
	limited := func(c perigee.RouteCandidate) bool { return !c.Until.IsZero() }
	switch {
	case slices.ContainsFunc(candidates, limited):
		return "wait for the time in the list, or add an API key or an account"
	case !slices.ContainsFunc(candidates, func(c perigee.RouteCandidate) bool { return routed(c) && !lacks(c) }):
		return "perigee models lists the models"
	}
	return "the reasons are in the list; perigee doctor checks the upstreams"
}

// printRoute prints the way from the name of the model to the upstreams, and a table of them.
func printRoute(env *cli.Env, cfg *config.Config, found perigee.RouteExplanation) error {
	for _, step := range append(found.Steps, refusedKeys(cfg, found)...) {
		fmt.Fprintln(env.Stdout, terminal.Printable(step))
	}
	now, chosen := time.Now(), false
	heads := []string{"UPSTREAM", "NAME", "ANSWERS", "WHY"}
	return cli.List(env, found.Candidates, heads, func(c perigee.RouteCandidate) []any {
		answers, why := "no", c.Reason
		switch {
		case c.Usable && !chosen && c.Upstream == found.Upstream:
			answers, chosen = "yes", true
		case c.Usable:
			answers = "next"
		}
		if !c.Until.IsZero() {
			why += ", for " + terminal.Span(c.Until.Sub(now))
		}
		return []any{c.Upstream, c.Name, answers, command.OrDash(env.Hint(why))}
	})
}

// refusedKeys names the keys of clients that may not use a model, in one sentence.
func refusedKeys(cfg *config.Config, found perigee.RouteExplanation) []string {
	var names []string
	for _, key := range cfg.Keys {
		allows := func(pattern string) bool {
			return match.Pattern(pattern, found.Model) || len(found.Candidates) > 0 && match.Pattern(pattern, found.Candidates[0].Name)
		}
		if len(key.Models) > 0 && !slices.ContainsFunc(key.Models, allows) {
			names = append(names, key.Name)
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("the key %s may not use it (keys.models)", names[0])}
	}
	return []string{fmt.Sprintf("the keys %s may not use it (keys.models)", strings.Join(names, ", "))}
}

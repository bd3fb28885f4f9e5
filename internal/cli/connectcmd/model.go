package connectcmd

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/daemon"
	"perigee/internal/lib/match"
	"perigee/internal/lib/terminal"
	"perigee/internal/server/connect"
	"perigee/internal/store/config"
)

// listTime is how long the running daemon may take to list its models. Without the list, clients
// work with less information.
const listTime = 10 * time.Second

// A catalog has the models of the running daemon. Without a daemon it is empty.
type catalog struct {
	config   *config.Config
	rows     []perigee.ModelRow
	complete bool // every upstream was asked
	problems []string
}

func readCatalog(ctx context.Context, env *cli.Env, loaded *config.Loaded) catalog {
	c := catalog{config: loaded.Config}
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	if !daemon.Running(ctx, loaded.Config) {
		return c
	}
	handle, err := daemon.Connect(ctx, command.DaemonOptions(env, loaded))
	if err != nil {
		return c
	}
	defer handle.Close()
	list, err := handle.Models(ctx, "", false)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		c.problems = []string{"the upstreams have not listed their models within " + listTime.String() + "; perigee doctor says which one cannot be reached"}
		return c
	case err != nil:
		c.problems = []string{terminal.Printable(err.Error())}
		return c
	}
	c.rows, c.complete = list.Rows, len(list.Problems) == 0 && len(list.Rows) > 0
	for _, p := range list.Problems {
		c.problems = append(c.problems, "no models from "+p.Upstream+": "+terminal.Printable(p.Why))
	}
	return c
}

// printProblems prints why upstreams have not listed their models, unless the model of a target is
// listed by another one. Some clients retry for minutes without a message, so a user would not see
// it otherwise.
func (c *catalog) printProblems(env *cli.Env, client *connect.Client, target *connect.Target) {
	if c.find(cmp.Or(target.Model, client.Model)) != nil {
		return
	}
	for _, problem := range c.problems {
		env.Remark("warning: %s", problem)
	}
}

// find returns the entry of a model, also for a name with a thinking suffix or with the name of an
// upstream; nil if there is none.
func (c *catalog) find(name string) *perigee.ModelRow {
	has := func(name string) int {
		return slices.IndexFunc(c.rows, func(r perigee.ModelRow) bool { return r.ID == name || r.Upstream+"/"+r.ID == name })
	}
	base, _ := models.Split(name, func(name string) bool { return has(name) >= 0 })
	for _, name := range []string{name, base} {
		if at := has(name); at >= 0 {
			return &c.rows[at]
		}
	}
	return nil
}

// answers reports whether requests for a model are answered, as far as that is known.
func (c *catalog) answers(name string) bool {
	if !c.complete || c.config.Models.Fallback != "" || c.find(name) != nil {
		return true
	}
	for pattern := range c.config.Models.Aliases {
		if match.Pattern(pattern, name) {
			return true
		}
	}
	return false
}

// choose returns the model for a client: the wanted one, the configured default, the client's own
// if perigee has it, or the first that perigee has. It is empty if the models of perigee are
// unknown.
func (c *catalog) choose(client *connect.Client, wanted string) string {
	if wanted = cmp.Or(wanted, c.config.Models.Default); wanted != "" {
		return wanted
	}
	has := func(wanted string) func(perigee.ModelRow) bool {
		return func(r perigee.ModelRow) bool { return r.ID == wanted }
	}
	gemini := func(r perigee.ModelRow) bool {
		return strings.HasPrefix(r.ID, "gemini-") && !strings.Contains(r.ID, "embedding")
	}
	for _, suits := range []func(perigee.ModelRow) bool{has(client.Model), has("gemini-3-flash"), gemini} {
		if at := slices.IndexFunc(c.rows, suits); at >= 0 {
			return c.rows[at].ID
		}
	}
	return ""
}

// apply sets the model of a target, and the properties of it that clients need. It prints
// limitations of the model that a user would not expect.
func (c *catalog) apply(env *cli.Env, client *connect.Client, target *connect.Target, wanted string) {
	target.Model, target.Answers = c.choose(client, wanted), c.answers
	name := cmp.Or(target.Model, client.Model)
	if row := c.find(name); row != nil {
		target.Context = row.Context
	}
	if name == "" {
		return
	}
	if !c.answers(name) {
		var ids []string
		for _, r := range c.rows {
			ids = append(ids, r.ID)
		}
		hint := "perigee models lists those that are there"
		if near := match.Nearest(name, ids, 1); len(near) > 0 {
			hint = "did you mean " + near[0] + "?"
		}
		env.Remark("warning: no upstream lists the model %s; %s", name, hint)
	}
	if command.WithoutTools(c.config, name) {
		env.Remark("warning: %s is the agent of the IDE, which ignores the tools of %s: it answers, but cannot read, edit or run anything for it", name, client.Title)
	}
}

package connectcmd

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
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

// A catalog has the models of the running daemon, or else of the upstreams. It is empty if they
// cannot be listed.
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
	if !daemon.Running(ctx, loaded.Config) && len(loaded.Config.Upstreams) == 0 {
		return c
	}
	handle, err := command.Connect(ctx, env, loaded, command.ExceptUpstreams)
	if err != nil { // a secret of an upstream may be missing in this shell
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
	if len(list.Rows) == 0 && len(list.Problems) == 0 {
		c.problems = []string{"the upstreams have no models; perigee doctor shows what to do"}
	}
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
	return slices.ContainsFunc(c.config.Models.Routes, func(r config.Route) bool { return r.Model != "" && match.Pattern(r.Match, name) })
}

// choose returns the model for a client: the wanted one, the configured default, the newest of its
// maker, the one that usually suits it, or else another one that perigee has. It is empty if the
// models of perigee are unknown.
func (c *catalog) choose(client *connect.Client, wanted string) string {
	if wanted = cmp.Or(wanted, c.config.Models.Default); wanted != "" {
		return wanted
	}
	patterns := slices.Concat(client.Makers, []string{client.Model, "gemini-3-flash", "gemini-*", "claude-sonnet-*", "claude-*", "gpt-*"})
	for _, sure := range []bool{true, false} {
		for _, pattern := range patterns {
			if id := c.newest(pattern, sure); id != "" {
				return id
			}
		}
	}
	if at := slices.IndexFunc(c.rows, func(r perigee.ModelRow) bool { return r.AliasOf == "" && writesText(r) }); at >= 0 {
		return c.rows[at].ID
	}
	return ""
}

// passedOver returns the newest model of the client's maker if choose has chosen a model of another
// maker, because that one may be missing. It is "" otherwise.
func (c *catalog) passedOver(client *connect.Client, chosen string) string {
	for _, pattern := range client.Makers {
		if chosen == "" || match.Pattern(pattern, path.Base(chosen)) {
			return ""
		}
	}
	for _, pattern := range client.Makers {
		if id := c.newest(pattern, false); id != "" {
			return id
		}
	}
	return ""
}

// newest returns the model of a name or, for a pattern, the one with the highest version, "" if there
// is none. The name of a maker before the name of the model does not count. Large, small and special
// variants of a model come after it. If sure is set, models that may be missing do not count.
func (c *catalog) newest(pattern string, sure bool) (best string) {
	for _, r := range c.rows {
		if sure && c.mayBeMissing(r) {
			continue
		}
		suits := r.AliasOf == "" && writesText(r) && len(version(r.ID)) > 0 && match.Pattern(pattern, path.Base(r.ID))
		if (suits || r.ID == pattern) && (best == "" || compareModels(r.ID, best) > 0) {
			best = r.ID
		}
	}
	return best
}

// mayBeMissing reports whether a model may not answer although it is in the list, which at Vertex AI is
// the same for all projects and locations: access to Claude has to be requested in Model Garden, and
// Gemini 3 is in no region.
func (c *catalog) mayBeMissing(r perigee.ModelRow) bool {
	i := slices.IndexFunc(c.config.Upstreams, func(u config.Upstream) bool { return u.Name == r.Upstream && u.Kind == config.KindVertex })
	if i < 0 {
		return false
	}
	location := cmp.Or(c.config.Upstreams[i].Location, os.Getenv("GOOGLE_CLOUD_LOCATION"), "global")
	family := models.Of(path.Base(cmp.Or(r.AliasOf, r.ID))).Family
	return family == models.Claude || family == models.Gemini && !slices.Contains([]string{"global", "us", "eu"}, location)
}

// words returns the parts of a model name without the name of its maker.
func words(id string) []string {
	return strings.FieldsFunc(path.Base(id), func(r rune) bool { return strings.ContainsRune("-_:@.", r) })
}

// variants are words in names of models that are not the usual choice: they cost more, are less able,
// or refer to a version that changes.
var variants = []string{"mini", "nano", "lite", "pro", "luna", "terra", "astra", "chat", "latest", "free", "fast", "thinking", "preview"}

// compareModels compares two models for the same purpose: 1 if a is the better choice, -1 if b is.
func compareModels(a, b string) int {
	isVariant := func(id string) int {
		if slices.ContainsFunc(words(id), func(word string) bool { return slices.Contains(variants, word) }) {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(isVariant(b), isVariant(a)), slices.Compare(version(a), version(b)), cmp.Compare(len(b), len(a)))
}

// version returns the numbers in the name of a model before its date, if it has one.
func version(id string) (numbers []int) {
	for _, word := range words(id) {
		n, err := strconv.Atoi(word)
		if err == nil && len(word) >= len("2006") {
			break
		}
		if err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// otherPurposes are words in names of models that no agent can use.
var otherPurposes = []string{"embedding", "embeddings", "embed", "image", "tts", "audio", "realtime", "transcribe", "whisper", "moderation",
	"dall", "sora", "veo", "imagen", "live", "search", "instruct", "babbage", "davinci", "computer", "ocr", "guard"}

// writesText reports whether an agent can use a model, as far as that is known.
func writesText(r perigee.ModelRow) bool {
	return (r.Tools == nil || *r.Tools) && !slices.ContainsFunc(words(r.ID), func(word string) bool { return slices.Contains(otherPurposes, word) })
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
	if wanted == "" && c.config.Models.Default == "" {
		if other := c.passedOver(client, target.Model); other != "" {
			env.Remark("the model is %s, because Claude has to be enabled in Model Garden of Vertex AI; "+
				"for Claude, add --model %s or set models.default in the configuration", target.Model, other)
		}
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

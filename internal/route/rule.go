package route

import (
	"slices"
	"strings"

	"perigee"
	"perigee/internal/lib/match"
)

// A Rule routes requests for the models with a matching name, which fulfil its condition.
type Rule struct {
	Match string
	When  Condition
	// To are the upstreams, in order. If it is empty, the upstreams of Model are used.
	To []string
	// Model answers in place of the model that was asked for. If it is empty, the model stays. A rule
	// with a Model matches the name in the request, too, and not only the model behind an alias.
	Model string
}

// A Condition restricts a rule to some of the requests. Requests fulfil it if they have everything
// that it names; the zero Condition is fulfilled by all.
type Condition struct {
	Text  string // for people: "agent: sub, tools: false"
	Agent string // main or sub: the agent of the user, or one that an agent has started
	// InputTokens reports whether an estimate of the input is within the condition.
	InputTokens   func(n int64) bool
	Images, Tools *bool // whether the conversation has images, and whether the model may call tools
}

// always reports whether all requests fulfil the condition.
func (c *Condition) always() bool {
	return c.Agent == "" && c.InputTokens == nil && c.Images == nil && c.Tools == nil
}

// A test reports whether a rule applies to requests that are for a model with a matching name.
type test func(*Rule) bool

// unconditional is the test where no request is known.
func unconditional(rule *Rule) bool { return rule.When.always() }

// of returns the test for a request. It reads as little of the request as the conditions need,
// because images and tools are known only after the conversation has been decoded. One
// that cannot be decoded has neither.
func of(req *perigee.Request) test {
	return func(rule *Rule) bool {
		c := &rule.When
		switch {
		case c.Agent != "" && c.Agent != agentOf(&req.Origin), c.InputTokens != nil && !c.InputTokens(req.EstimateTokens()):
			return false
		case c.Images == nil && c.Tools == nil:
			return true
		}
		prompt, err := req.Prompt()
		if err != nil {
			prompt = &perigee.Prompt{}
		}
		return (c.Tools == nil || *c.Tools == (len(prompt.Tools) > 0)) && (c.Images == nil || *c.Images == hasImages(prompt.Contents))
	}
}

// ofEmbedding returns the test for a request for embeddings, which has an agent, but no conversation.
func ofEmbedding(origin *perigee.Origin) test {
	return func(rule *Rule) bool {
		c := &rule.When
		return (c.Agent == "" || c.Agent == agentOf(origin)) && c.InputTokens == nil && c.Images == nil && c.Tools == nil
	}
}

// supposed returns the test for the requests that a question is about. Rules with a condition that
// the question leaves open do not apply; they are added to open.
func supposed(q *perigee.RouteQuestion, open *[]*Rule) test {
	return func(rule *Rule) bool {
		c := &rule.When
		decided, refuted := true, false
		check := func(given, fulfilled bool) {
			decided, refuted = decided && given, refuted || given && !fulfilled
		}
		if c.Agent != "" {
			check(q.Agent != "", q.Agent == c.Agent)
		}
		if c.InputTokens != nil {
			check(q.InputTokens != nil, q.InputTokens != nil && c.InputTokens(*q.InputTokens))
		}
		for _, pair := range [...][2]*bool{{c.Images, q.Images}, {c.Tools, q.Tools}} {
			if want, is := pair[0], pair[1]; want != nil {
				check(is != nil, is != nil && *is == *want)
			}
		}
		if !decided && !refuted && !slices.Contains(*open, rule) {
			*open = append(*open, rule)
		}
		return decided && !refuted
	}
}

// agentOf returns which agent sends a request. Clients name only the agents that another one has
// started.
func agentOf(origin *perigee.Origin) string {
	if c := origin.Client; c.Agent != "" || c.ParentAgent != "" {
		return "sub"
	}
	return "main"
}

// hasImages reports whether a conversation has images, also in the results of tools.
func hasImages(contents []perigee.Content) bool {
	return slices.ContainsFunc(contents, func(c perigee.Content) bool { return slices.ContainsFunc(c.Parts, isImage) })
}

func isImage(p perigee.Part) bool {
	switch p.Kind {
	case perigee.PartBlob:
		return strings.HasPrefix(p.Blob.MIME, "image/")
	case perigee.PartFile:
		return strings.HasPrefix(p.File.MIME, "image/")
	case perigee.PartResponse:
		return slices.ContainsFunc(p.Response.Media, isImage)
	}
	return false
}

// applyRule applies the first rule that matches to a resolved name: it sets the upstreams and, if the
// rule names one, the model. Without a rule, all upstreams are asked.
func (r *Router) applyRule(found *resolution, applies test) {
	if found.upstream == "" {
		found.rule = r.rule(found, applies, true)
	}
	if rule := found.rule; rule != nil && rule.Model != "" {
		found.model, found.aliased, found.replacedBy = rule.Model, true, rule
		r.followAliases(found)
		if len(rule.To) == 0 {
			found.rule = r.rule(found, applies, false)
		}
	}
	r.setTargets(found)
}

// route sets the upstreams of a model that answers for another one. Rules with conditions and rules
// that name a model do not apply.
func (r *Router) route(found *resolution) {
	if found.upstream == "" {
		found.rule = r.rule(found, unconditional, false)
	}
	r.setTargets(found)
}

// setTargets sets the upstreams. The upstream in a name is the only one, whatever the rule is, unless
// a replay names another.
func (r *Router) setTargets(found *resolution) {
	found.targets = r.opts.Targets
	names := []string{found.upstream}
	if found.upstream == "" && found.rule != nil {
		names = found.rule.To
	}
	if targets := r.named(names); len(targets) > 0 {
		found.targets = targets
	}
}

// rule returns the first rule that matches a model and applies, or nil if there is none. Rules that
// name a model count only with replacing.
func (r *Router) rule(found *resolution, applies test, replacing bool) *Rule {
	for i := range r.opts.Rules {
		rule := &r.opts.Rules[i]
		matches := match.Pattern(rule.Match, found.model) || rule.Model != "" && match.Pattern(rule.Match, found.asked)
		if matches && (replacing || rule.Model == "") && applies(rule) {
			return rule
		}
	}
	return nil
}

// String describes the rule for people, with the terms of the configuration.
func (rule *Rule) String() string {
	text := "models.routes sends " + rule.Match
	if rule.When.Text != "" {
		text += " when " + rule.When.Text
	}
	return text + " to " + rule.condition().Destination()
}

func (rule *Rule) condition() perigee.RouteCondition {
	return perigee.RouteCondition{When: rule.When.Text, To: rule.To, Model: rule.Model}
}

package route

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"perigee"
)

// Every upstream is listed in the order in which a call tries them, with the reason why it would
// not answer, and the first that would answer is the one that a call is answered by.
func TestExplain(t *testing.T) {
	names := func(models ...string) *source { return &source{models: models} }
	refuses := &refuser{class: perigee.ClassUnauthenticated}
	const flash, pro = "gemini-3-flash", "gemini-3-pro"
	for _, test := range []struct {
		name    string
		options Options
		asked   string
		resting string // the upstream that check finds unusable
		want    string
	}{
		{"the first that lists it", Options{Targets: []Target{{"a", names(pro)}, {"b", names(flash, pro)}}}, flash, "",
			"b as gemini-3-flash | a -: it has no model gemini-3-flash | b +:"},
		{"an alias and a route", Options{
			Targets: []Target{{"a", names(flash)}, {"b", names(flash)}, {"c", names(flash)}}, Aliases: map[string]string{"gpt-4o": flash},
			Rules: []Rule{{Match: "gemini-*", To: []string{"c", "b"}}}}, "gpt-4o", "",
			"c as gemini-3-flash | c +: | b +: | a -: models.routes sends gemini-* to c, b | " +
				"gpt-4o is an alias of gemini-3-flash | models.routes sends gemini-* to c, b"},
		{"a fallback", Options{Targets: []Target{{"a", names(flash)}}, Fallback: flash}, "llama", "",
			"a as gemini-3-flash | a -: it has no model llama | a +: | no upstream has llama; gemini-3-flash takes its place"},
		{"a name with an upstream", Options{Targets: []Target{{"a", names(flash)}, {"b", names(flash)}}, Rules: []Rule{{Match: "*", To: []string{"a"}}}, Fallback: flash},
			"b/gemini-3-flash", "", "b as gemini-3-flash | b +: | a -: the name is of a model of b | b/gemini-3-flash is gemini-3-flash at b"},
		{"a name with an upstream that lacks it", Options{Targets: []Target{{"a", names(flash)}, {"b", names(pro)}}, Fallback: flash}, "b/llama", "",
			" as  | b -: it has no model llama | a -: the name is of a model of b | b/llama is llama at b"},
		{"one that leaves the model out", Options{Targets: []Target{{"a", names(flash)}, {"b", names(pro)}}, Offered: map[string][]string{"a": {"*-lite"}}, Fallback: pro}, flash, "",
			" as  | b -: it has no model gemini-3-flash | a -: models of a in the configuration leaves this model out"},
		{"nothing", Options{Targets: []Target{{"a", names(flash)}}}, "llama", "", " as  | a -: it has no model llama"},
		{"one that rests", Options{Targets: []Target{{"a", names(flash)}, {"b", names(flash)}}}, flash, "a",
			"b as gemini-3-flash | a -: it rests | b +:"},
		{"a fallback is for missing models only", Options{Targets: []Target{{"a", names(flash)}}, Fallback: flash}, "gemini-2.5-pro", "a",
			" as  | a -: it rests"},
		{"one that rests lacks the model", Options{Targets: []Target{{"a", names(flash)}, {"b", names(pro)}}, Fallback: pro}, "llama", "a",
			"b as gemini-3-pro | a -: it has no model llama | b -: it has no model llama | b +: | a -: it has no model gemini-3-pro | " +
				"no upstream has llama; gemini-3-pro takes its place"},
		{"a list that fails, and one that does not", Options{Targets: []Target{{"a", &source{}}, {"b", names(flash)}}}, flash, "",
			"b as gemini-3-flash | a -: no list | b +:"},
		{"no list at all", Options{Targets: []Target{{"a", &source{}}, {"b", &source{}}}}, flash, "",
			"a as gemini-3-flash | a +: whether it has this model could not be checked: no list | " +
				"b +: whether it has this model could not be checked: no list"},
		{"refused credentials", Options{Targets: []Target{{"a", refuses}}}, flash, "", " as  | a -: refused"},
		{"an upstream without a list", Options{Targets: []Target{{"a", plain{says("x")}}}}, flash, "", "a as gemini-3-flash | a +:"},
	} {
		r := router(t, test.options)
		got, err := r.Explain(t.Context(), perigee.RouteQuestion{Model: test.asked}, func(upstream, _ string) perigee.RouteCandidate {
			if upstream == test.resting {
				return perigee.RouteCandidate{Reason: "it rests"}
			}
			return perigee.RouteCandidate{Usable: true}
		})
		if err != nil {
			t.Fatal(err)
		}
		parts := []string{got.Upstream + " as " + got.Name}
		for _, c := range got.Candidates {
			sign := map[bool]string{true: "+", false: "-"}[c.Usable]
			parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s: %s", c.Upstream, sign, c.Reason)))
		}
		if said := strings.Join(append(parts, got.Steps...), " | "); said != test.want {
			t.Errorf("%s: got %q, want %q", test.name, said, test.want)
		}
	}
	if _, err := router(t, Options{}).Explain(t.Context(), perigee.RouteQuestion{}, nil); err == nil {
		t.Error("a call without a model and without a default is explained")
	}
}

// A refuser is an upstream whose provider refuses the list of models, unless the class is empty.
type refuser struct {
	source
	class perigee.Class
}

func (r *refuser) Models(ctx context.Context) ([]perigee.Model, error) {
	if r.class == "" {
		return r.source.Models(ctx)
	}
	return nil, perigee.Errorf(r.class, "refused")
}

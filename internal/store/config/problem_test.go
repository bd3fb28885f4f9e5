package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"perigee/internal/testing/perigeetest"
)

// A file that is wrong everywhere is answered soon, with a limited number of problems.
func TestManyProblemsAreShortenedSoon(t *testing.T) {
	perigeetest.Slow(t)
	text := func(n int, line func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(line(i))
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		text string
		want int
		all  []string // lines of the message
	}{
		"unknown keys": {text(90_000, func(i int) string { return fmt.Sprintf("k%05d: 1\n", i) }), 90_000,
			[]string{`c.yaml:1:1: unknown key "k00000"; known keys are listen, `, `c.yaml:100:1: unknown key "k00099"; known keys are listen, `, "and there are 89900 more problems"}},
		"misspelt keys": {text(9_000, func(i int) string { return fmt.Sprintf("listen%05d: 1\n", i) }), 9_000,
			[]string{`c.yaml:1:1: unknown key "listen00000"`, "and there are 8900 more problems"}},
		"kinds": {"upstreams:\n" + text(3_000, func(i int) string { return fmt.Sprintf("- {name: n%d, kind: gemni}\n", i) }), 3_000,
			[]string{`upstreams[0].kind: expected one of ` + strings.Join(upstreamField("kind").enum, ", ") + `, got "gemni"; did you mean "gemini"?`}},
		"unknown upstreams": {"upstreams:\n" + text(2_000, func(i int) string { return fmt.Sprintf("- {name: studio-%d, kind: simulator}\n", i) }) +
			"models: {routes: [{match: \"*\", to: [" + text(4_000, func(i int) string { return fmt.Sprintf("elsewhere-%d, ", i) }) + "]}]}\n", 4_000,
			[]string{`models.routes[0].to: there is no upstream named "elsewhere-0"; known upstreams: studio-0, `, " and 1980 more", "and there are 3900 more problems"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, src := inDir(t, nil)
			src.Path = "c.yaml"
			src.ReadFile = func(string) ([]byte, error) { return []byte(c.text), nil }
			_, err := Load(src)
			problems, ok := errors.AsType[*Problems](err)
			if !ok || len(problems.List) != maxProblems || len(problems.List)+problems.More != c.want {
				t.Fatalf("got %.500v", err)
			}
			for _, line := range c.all {
				if !strings.Contains(err.Error(), line) {
					t.Errorf("the message has no %s in\n%.1000s", line, err)
				}
			}
			// Comparing names is what takes time: it is done for as many as are told, and for no
			// more.
			l := newLoader(src)
			l.load()
			if hints := slices.DeleteFunc(l.problems, func(p Problem) bool { return p.Hint == "" }); len(hints) > maxProblems {
				t.Errorf("%d hints were looked for", len(hints))
			}
		})
	}
}

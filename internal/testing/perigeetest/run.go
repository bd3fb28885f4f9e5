package perigeetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"golang.org/x/tools/txtar"

	"perigee"
)

// A Gateway is a perigee that runs.
type Gateway interface {
	// URL is where clients reach it.
	URL() string
	// Stop ends it and returns the calls that it recorded.
	Stop(ctx context.Context) ([]perigee.Call, error)
}

// Setup is what a gateway is to be started with.
type Setup struct {
	Config string // YAML, without listen and data_dir
	Dir    string // empty, for data_dir
	Clock  *Clock
	IDs    *IDs
}

// A Runner plays transcripts.
type Runner struct {
	Start  func(ctx context.Context, setup Setup) (Gateway, error)
	Update bool // write what happened into the files instead of comparing
}

// Run plays every transcript with a path that matches the pattern, each as a parallel subtest
// against its own gateway.
func (r Runner) Run(t *testing.T, pattern string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts at %s (%v)", pattern, err)
	}
	for _, path := range paths {
		name := filepath.Base(filepath.Dir(path)) + "/" + strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.file(t, path)
		})
	}
}

func (r Runner) file(t *testing.T, path string) {
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: its path has the test's name in it, and socket paths have little room.
	dir, err := os.MkdirTemp("", "perigee")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	after, err := r.play(t.Context(), txtar.Parse(before), dir)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	text := txtar.Format(after)
	if r.Update {
		if string(text) == string(before) {
			return
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := diff.Diff("expected", before, "happened", text); d != nil {
		t.Errorf("%s: what happened is not what the transcript says (-update writes it there)\n%s", path, d)
	}
}

// play runs a transcript and returns it with the expectations replaced by what happened.
func (r Runner) play(ctx context.Context, file *txtar.Archive, dir string) (*txtar.Archive, error) {
	t, err := parseTranscript(file)
	if err != nil {
		return nil, err
	}
	scripted := newProvider(t.script)
	defer scripted.close()
	names := &placeholders{provider: scripted.server.URL}
	setup := Setup{Config: names.fill(t.config), Dir: dir, Clock: &Clock{}, IDs: &IDs{}}
	gateway, err := r.Start(ctx, setup)
	if err != nil {
		return nil, err
	}
	names.perigee = strings.TrimPrefix(gateway.URL(), "http://")
	ids, problem := r.rounds(t, scripted, names, setup.Clock)
	calls, err := gateway.Stop(ctx)
	if problem != nil || err != nil {
		return nil, errors.Join(problem, err)
	}
	asked, extra := scripted.requests()
	if len(extra) > 0 {
		return nil, fmt.Errorf("perigee asked for more than the transcript answers:\n%s", strings.Join(extra, "\n"))
	}
	for i, request := range asked {
		if request == "" {
			return nil, fmt.Errorf("perigee never asked for %s", partName("upstream.response", t.numbers[i]))
		}
		asked[i] = names.hide(request)
	}
	for _, call := range calls {
		if i := slices.Index(ids, call.ID); i >= 0 {
			t.rounds[i].call = names.hide(callText(&call))
		} else {
			return nil, fmt.Errorf("call %s was recorded, and no client made it", call.ID)
		}
	}
	return t.actual(asked), nil
}

// rounds makes the requests one after the other and returns the ids of their calls.
func (r Runner) rounds(t *transcript, scripted *provider, names *placeholders, clock *Clock) (ids []string, err error) {
	for _, round := range t.rounds {
		request := names.fill(round.request)
		if step, rest, ok := cutAdvance(request); ok {
			clock.Advance(step)
			request = rest
		}
		c := &client{addr: names.perigee, pauses: scripted.pauses}
		if want := t.wants[partName("response", round.number)]; !r.Update {
			c.want = names.fill(want)
		}
		if err := c.do(request); err != nil {
			return nil, fmt.Errorf("%s: %w", partName("request", round.number), err)
		}
		ids = append(ids, c.id)
		round.response = names.hide(c.text)
	}
	return ids, nil
}

// cutAdvance takes the stage direction !advance off a request.
func cutAdvance(request string) (step time.Duration, rest string, ok bool) {
	line, rest, _ := strings.Cut(request, "\n")
	value, ok := strings.CutPrefix(line, "!advance ")
	if !ok {
		return 0, request, false
	}
	step, err := time.ParseDuration(value)
	return step, rest, err == nil
}

// placeholders replace addresses in transcripts that are different each time.
type placeholders struct{ provider, perigee string }

func (p *placeholders) pairs() []string {
	pairs := []string{"{{provider}}", p.provider, "{{provider.addr}}", strings.TrimPrefix(p.provider, "http://")}
	if p.perigee != "" {
		pairs = append(pairs, "{{perigee}}", p.perigee)
	}
	return pairs
}

// fill puts the addresses in.
func (p *placeholders) fill(text string) string {
	return strings.NewReplacer(p.pairs()...).Replace(text)
}

// refusedConnection matches the operating systems' errors for an address without a listener.
var refusedConnection = regexp.MustCompile(`connect(ex)?: [^"\n]*refused( it\.)?`)

// hide puts the placeholders back.
func (p *placeholders) hide(text string) string {
	pairs := p.pairs()
	for i := 0; i < len(pairs); i += 2 {
		pairs[i], pairs[i+1] = pairs[i+1], pairs[i]
	}
	return refusedConnection.ReplaceAllString(strings.NewReplacer(pairs...).Replace(text), "connection refused")
}

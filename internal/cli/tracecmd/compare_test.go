package tracecmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/cli"
	"perigee/internal/daemon"
	"perigee/internal/daemon/remote"
	"perigee/internal/observe/trace/replay"
	"perigee/internal/store/config"
)

// A compareRig is a daemon with recorded calls, which answers replays with the name of the model.
type compareRig struct {
	client *remote.Client
	mu     sync.Mutex
	calls  []perigee.Trace // the newest first
	reads  []string        // the IDs of the calls whose records were read
	// onReplay is called before a replay is answered, with its number; nil means nothing happens. It
	// reports whether the replay fails.
	onReplay func(number int) (fails bool)
	end      func(c *perigee.Trace) // changes the record of a replay; nil changes nothing
	refuse   bool                   // replays are refused
	replays  int
}

func newCompareRig(t *testing.T, calls ...perigee.Trace) *compareRig {
	t.Helper()
	dir, err := os.MkdirTemp("", "perigee") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "perigee.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	rig := &compareRig{client: remote.New(socket), calls: calls}
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	mux.HandleFunc("GET /v1/traces", rig.list)
	mux.HandleFunc("GET /v1/traces/{id}", rig.read)
	mux.HandleFunc("POST "+replay.Path+"{id}", rig.replay)
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return rig
}

func (rig *compareRig) list(w http.ResponseWriter, r *http.Request) {
	rig.mu.Lock()
	defer rig.mu.Unlock()
	rows := []perigee.TraceRow{}
	limit, _ := strconv.Atoi(r.FormValue("limit"))
	before := r.FormValue("before")
	for i := range rig.calls {
		switch {
		case before != "":
			if rig.calls[i].ID == before {
				before = ""
			}
		case len(rows) < limit:
			rows = append(rows, rig.calls[i].TraceRow)
		}
	}
	_ = json.NewEncoder(w).Encode(rows)
}

func (rig *compareRig) read(w http.ResponseWriter, r *http.Request) {
	rig.mu.Lock()
	defer rig.mu.Unlock()
	id := r.PathValue("id")
	rig.reads = append(rig.reads, id)
	i := slices.IndexFunc(rig.calls, func(c perigee.Trace) bool { return c.ID == id })
	_ = json.NewEncoder(w).Encode(rig.calls[i])
}

func (rig *compareRig) replay(w http.ResponseWriter, r *http.Request) {
	rig.mu.Lock()
	defer rig.mu.Unlock()
	rig.replays++
	c := perigee.Trace{Operation: perigee.OperationGenerate}
	c.ID, c.ReplayOf, c.ModelAsked = fmt.Sprintf("replay%d", rig.replays), r.PathValue("id"), r.FormValue("model")
	c.Model, c.Upstream, c.Status, c.Outcome = c.ModelAsked, "studio", 200, perigee.OutcomeDone
	c.InputTokens, c.CachedTokens, c.OutputTokens, c.CostUSD = 10, 4, 2, perigee.USD(0.5)
	c.FirstByteMS, c.DurationMS = 1200, 2000
	if rig.onReplay != nil && rig.onReplay(rig.replays) {
		c.Status, c.Outcome, c.Class, c.Error = 503, perigee.OutcomeFailed, perigee.ClassCapacity, "the model is overloaded"
		c.InputTokens, c.CachedTokens, c.OutputTokens, c.CostUSD, c.FirstByteMS = 0, 0, 0, perigee.USD(0), 0
	}
	if rig.end != nil {
		rig.end(&c)
	}
	if rig.refuse {
		w.Header().Set("X-Perigee-Class", string(perigee.ClassNotFound))
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error": {"message": "the trace directory is gone"}}`))
		return
	}
	rig.calls = append(rig.calls, c)
	w.Header().Set(replay.OfHeader, c.ReplayOf)
	w.Header().Set("X-Perigee-Call", c.ID)
	w.WriteHeader(c.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]string{"content": "I am " + c.Model}}}})
}

// sent returns the number of calls that were sent again.
func (rig *compareRig) sent() int {
	rig.mu.Lock()
	defer rig.mu.Unlock()
	return rig.replays
}

// recorded returns a call of a client that can be sent again.
func recorded(id string, change func(*perigee.Trace)) perigee.Trace {
	c := perigee.Trace{Operation: perigee.OperationGenerate}
	c.ID, c.Time, c.Dialect, c.ModelAsked, c.Model, c.Upstream = id, time.Date(2026, 11, 15, 14, 20, 4, 0, time.UTC), "openai-chat", "old", "old", "studio"
	c.Outcome, c.Bodies, c.ClientName, c.Session = perigee.OutcomeDone, true, "claude-cli", "s-1"
	c.InputTokens, c.OutputTokens, c.DurationMS, c.FirstByteMS = 20_000, 300, 900, 500
	if change != nil {
		change(&c)
	}
	return c
}

// The newest calls that can be sent again are found across pages, and come in the order in which
// they were made. Only the records of calls that may be among them are read.
func TestCallsToCompareAreFound(t *testing.T) {
	calls := []perigee.Trace{
		recorded("c9", func(c *perigee.Trace) { c.Outcome = perigee.OutcomeOpen }),
		recorded("c8", func(c *perigee.Trace) { c.Dialect = perigee.DialectMCP }),
		recorded("c8", func(c *perigee.Trace) { c.Dialect = perigee.DialectOpenAIImages }),
		recorded("c7", func(c *perigee.Trace) { c.Operation = perigee.OperationCount }),
		recorded("c6", func(c *perigee.Trace) { c.Outcome = perigee.OutcomeFailed }),
		recorded("c5", func(c *perigee.Trace) { c.Session = "other" }),
	}
	for i := range maxRows { // a page without bodies
		calls = append(calls, recorded(fmt.Sprintf("b%d", i), func(c *perigee.Trace) { c.Bodies = false }))
	}
	rig := newCompareRig(t, append(calls, recorded("c4", nil), recorded("c3", nil), recorded("c2", nil))...)
	s := selection{last: 3, session: "s-?"}
	found, err := s.find(t.Context(), rig.client)
	if ids := idsOf(found); err != nil || !slices.Equal(ids, []string{"c3", "c4", "c6"}) {
		t.Errorf("found %v, %v", ids, err)
	}
	rig.mu.Lock()
	if want := []string{"c7", "c6", "c4", "c3"}; !slices.Equal(rig.reads, want) {
		t.Errorf("read %v, want %v", rig.reads, want)
	}
	rig.mu.Unlock()
	s.last = 1000
	if found, err = s.find(t.Context(), rig.client); err != nil || len(found) != 4 {
		t.Errorf("found %v, %v", idsOf(found), err)
	}
}

func idsOf(calls []perigee.Trace) (ids []string) {
	for i := range calls {
		ids = append(ids, calls[i].ID)
	}
	return ids
}

func TestNoCallToCompare(t *testing.T) {
	bare := recorded("c1", func(c *perigee.Trace) { c.Bodies = false })
	for _, test := range []struct {
		calls []perigee.Trace
		s     selection
		want  string
	}{
		{nil, selection{last: 3}, "no calls recorded yet"},
		{[]perigee.Trace{bare}, selection{last: 3, session: "else"}, "no recorded call matches; perigee trace list shows recent calls"},
		{[]perigee.Trace{bare}, selection{last: 3}, "(1 looked at): there is no recorded request of a conversation; with traces.bodies: true"},
	} {
		_, err := test.s.find(t.Context(), newCompareRig(t, test.calls...).client)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test.s, err)
		}
	}
}

// The estimate has the recorded tokens at the price of the model at its upstream, without a cache.
func TestEstimate(t *testing.T) {
	table, err := models.LoadPrices([]models.PriceEntry{
		{Model: "plain", Price: models.Price{Input: 1, Output: 10, Cached: 0.1}},
		{Model: "long", Price: models.Price{Input: 1, Output: 10, LongInput: 2, LongOutput: 20}},
		{Model: "thinks", Price: models.Price{Input: 1, Output: 10, Thinking: 100}},
	})
	if err != nil {
		t.Fatal(err)
	}
	prices := models.NewPriceBook(table, "free").AddLocal("local")
	usual := recorded("c1", func(c *perigee.Trace) {
		c.InputTokens, c.CachedTokens, c.OutputTokens, c.ThinkingTokens = 100_000, 90_000, 1000, 500
	})
	large := recorded("c2", func(c *perigee.Trace) { c.InputTokens, c.OutputTokens = 300_000, 1000 })
	failed := recorded("c3", func(c *perigee.Trace) { c.InputTokens, c.OutputTokens, c.BytesIn = 0, 0, 40_000 })
	for _, test := range []struct {
		model, upstream string
		calls           []perigee.Trace
		input           int64
		want            string
	}{
		{"plain", "studio", []perigee.Trace{usual}, 100_000, "$0.1100"},
		{"plain", "studio", []perigee.Trace{usual, usual}, 200_000, "$0.2200"},
		{"long", "studio", []perigee.Trace{usual, large}, 400_000, "$0.7300"},
		{"thinks", "studio", []perigee.Trace{usual}, 100_000, "$0.1550"},
		{"plain", "studio", []perigee.Trace{failed}, 10_000, "$0.0100"},
		{"plain", "free", []perigee.Trace{usual}, 100_000, "$0.00"},
		{"plain", "local", []perigee.Trace{usual}, 100_000, "$0.1100"},
		{"nameless", "local", []perigee.Trace{usual}, 100_000, "$0.00"},
		{"nameless", "studio", []perigee.Trace{usual, failed}, 110_000, "unknown"},
	} {
		route := perigee.RouteExplanation{Model: "asked", Name: test.model, Upstream: test.upstream}
		row := estimateUsage(prices, &route, test.calls, time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC))
		if got := costCell(row); string(got) != test.want || row.InputTokens != test.input || row.Group != "asked" || int(row.Calls) != len(test.calls) {
			t.Errorf("%s at %s, %d calls: %s, want %s: %+v", test.model, test.upstream, len(test.calls), got, test.want, row)
		}
	}
	sum := perigee.UsageRow{}
	for _, cost := range []perigee.Cost{perigee.USD(2), {}} {
		sum.Add(usageRow(perigee.Usage{Input: 1}, cost))
	}
	if got := costCell(sum); got != "≥$2.00" {
		t.Errorf("a sum with an unknown price is %s", got)
	}
}

func TestPlanIsPrinted(t *testing.T) {
	var messages bytes.Buffer
	a := estimate{perigee.RouteExplanation{Upstream: "studio", Name: "a"}, usageRow(perigee.Usage{Input: 20_000, Output: 300}, perigee.USD(1.5))}
	b := estimate{perigee.RouteExplanation{Upstream: "local", Name: "b-7b", Conditions: []perigee.RouteCondition{{}}},
		usageRow(perigee.Usage{Input: 20_000, Output: 300}, perigee.Cost{})}
	a.Group, b.Group = "a", "b"
	p := plan{calls: []perigee.Trace{recorded("c1", nil)}, estimates: []estimate{a, b}}
	if err := p.print(&cli.Env{Stderr: &messages}); err != nil {
		t.Fatal(err)
	}
	const want = `perigee: to be sent: 1 recorded call to 2 models, 2 calls in all. They use tokens like any other call; tools that a model calls are not run.
MODEL  ANSWERED BY    CALLS  INPUT  OUTPUT  LIST PRICE
a      studio             1  20000     300       $1.50
b      b-7b at local      1  20000     300     unknown
TOTAL                     2  40000     600      ≥$1.50
perigee: this estimate assumes the tokens of the recorded calls, and that no input is cached
perigee: routes of b depend on the request: another upstream or model may answer some of the calls
`
	if messages.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &messages, want)
	}
}

// compare sends calls to models a and b, and returns what is printed.
func (rig *compareRig) compare(ctx context.Context, t *testing.T, env *cli.Env, calls ...perigee.Trace) (printed string, err error) {
	t.Helper()
	t.Setenv("TZ", "UTC")
	var out bytes.Buffer
	env.Stdout, env.Stderr = &out, &bytes.Buffer{}
	cfg := &config.Config{DataDir: t.TempDir()}
	c := comparison{env: env, client: rig.client, cfg: cfg, models: []string{"a", "b"}}
	err = c.run(ctx, calls)
	return out.String(), err
}

// A model that fails stops neither the next model nor the next call.
func TestModelThatFails(t *testing.T) {
	rig := newCompareRig(t)
	rig.onReplay = func(number int) bool { return number == 1 }
	printed, err := rig.compare(t.Context(), t, &cli.Env{}, recorded("c1", nil), recorded("c2", nil))
	if err == nil || err.Error() != "trace: 1 of 4 calls failed" {
		t.Errorf("%v", err)
	}
	const want = `call c1, 2026-11-15 14:20:04, openai-chat, claude-cli, session s-1
MODEL           UPSTREAM  RESULT    INPUT  CACHED  OUTPUT     COST  FIRST BYTE  DURATION  DIFFERS
old (recorded)  studio    done      20000       0     300  unknown       500ms     900ms  -
a               studio    capacity      0       0       0    $0.00           -      2.0s  error, text
b               studio    done         10       4       2  $0.5000        1.2s      2.0s  text
a: the model is overloaded

call c2, 2026-11-15 14:20:04, openai-chat, claude-cli, session s-1
MODEL           UPSTREAM  RESULT  INPUT  CACHED  OUTPUT     COST  FIRST BYTE  DURATION  DIFFERS
old (recorded)  studio    done    20000       0     300  unknown       500ms     900ms  -
a               studio    done       10       4       2  $0.5000        1.2s      2.0s  text
b               studio    done       10       4       2  $0.5000        1.2s      2.0s  text

TOTAL     CALLS  ERRORS  INPUT  CACHED  OUTPUT     COST  DURATION
recorded      2       0  40000       0     600  unknown      1.8s
a             2       1     10       4       2  $0.5000      4.0s
b             2       0     20       8       4    $1.00      4.0s
`
	if printed != want {
		t.Errorf("got\n%s\nwant\n%s", printed, want)
	}
}

// A call that is answered in the background is open, which is no failure. One that cannot be sent has
// the reason.
func TestCallsWithoutAnAnswer(t *testing.T) {
	rig := newCompareRig(t)
	rig.end = func(c *perigee.Trace) { c.Outcome = perigee.OutcomeOpen }
	printed, err := rig.compare(t.Context(), t, &cli.Env{}, recorded("c1", nil))
	if err != nil || !regexp.MustCompile(`(?m)^a +studio +open `).MatchString(printed) {
		t.Errorf("%v: %s", err, printed)
	}
	rig.refuse = true
	printed, err = rig.compare(t.Context(), t, &cli.Env{JSON: true}, recorded("c1", nil))
	var rows []compared
	if failed := json.Unmarshal([]byte(printed), &rows); failed != nil || len(rows) != 2 {
		t.Fatalf("%v: %s", failed, printed)
	}
	if r := rows[1]; err == nil || r.ID != "" || r.ReplayOf != "c1" || r.ModelAsked != "b" || r.Class != perigee.ClassNotFound ||
		r.Error != "the trace directory is gone" || r.Outcome != perigee.OutcomeFailed || r.Same {
		t.Errorf("%v: %+v", err, r)
	}
}

// What there is when a comparison is interrupted, or when the daemon ends, is printed, and nothing
// more is sent.
func TestComparisonThatStops(t *testing.T) {
	for name, stop := range map[string]func(interrupt func()) func(int) bool{
		"trace: interrupted after 3 of 6 calls": func(interrupt func()) func(int) bool {
			return func(number int) bool {
				if number == 4 {
					interrupt()
				}
				return false
			}
		},
		"3 of 6 calls were answered": func(func()) func(int) bool {
			return func(number int) bool {
				if number == 4 {
					panic(http.ErrAbortHandler)
				}
				return false
			}
		},
	} {
		for _, asJSON := range []bool{false, true} {
			ctx, interrupt := context.WithCancel(t.Context())
			rig := newCompareRig(t)
			rig.onReplay = stop(interrupt)
			printed, err := rig.compare(ctx, t, &cli.Env{JSON: asJSON}, recorded("c1", nil), recorded("c2", nil), recorded("c3", nil))
			interrupted := ctx.Err() != nil
			interrupt()
			if err == nil || !strings.Contains(err.Error(), name) || !interrupted && !errors.Is(err, daemon.ErrNoAnswer) {
				t.Errorf("%s: %v", name, err)
			}
			if sent := rig.sent(); sent != 4 {
				t.Errorf("%s: %d calls were sent", name, sent)
			}
			if asJSON {
				var rows []compared
				if err := json.Unmarshal([]byte(printed), &rows); err != nil || len(rows) != 3 || rows[2].ReplayOf != "c2" || rows[2].Original.ID != "c2" {
					t.Errorf("%s: %v: %s", name, err, printed)
				}
				continue
			}
			for _, line := range []string{`(?m)^call c1, `, `(?m)^call c2, `, `(?m)^recorded +2 +0 `, `(?m)^a +2 +0 `, `(?m)^b +1 +0 `} {
				if !regexp.MustCompile(line).MatchString(printed) {
					t.Errorf("%s: nothing matches %s:\n%s", name, line, printed)
				}
			}
			if strings.Contains(printed, "call c3") {
				t.Errorf("%s:\n%s", name, printed)
			}
		}
	}
}

// The list of models has each name once.
func TestModelList(t *testing.T) {
	if list, err := modelList("a, studio/b ,c"); err != nil || !slices.Equal(list, []string{"a", "studio/b", "c"}) {
		t.Errorf("%v, %v", list, err)
	}
	for list, want := range map[string]string{"": "compare needs --models", "a,,b": "compare needs --models", "a,b,a": "--models has a twice"} {
		if _, err := modelList(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", list, err)
		}
	}
}

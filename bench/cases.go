package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perigee/bench/internal/measure"
)

// caseSize is the body of every case: an agent's in the middle of its work.
const caseSize = 100 << 10

// A benchCase is one way to use perigee, beside ReverseProxy, which is asked the same in the
// provider's own dialect.
type benchCase struct {
	name     string
	ours     *dialect
	theirs   *dialect // of the provider alone and of ReverseProxy
	model    string
	clients  int
	settings setting

	cell cell
	peak [3]int64 // resident at most, by target; of processes that have answered nothing else
}

// A setting is what is special about perigee's configuration.
type setting int

const (
	usual setting = iota
	logging
	antigravity
)

// The dialects with something else about them than a stream of chunkCount chunks that is not
// stored.
var (
	geminiWhole = gemini.whole("/v1beta/models/%s:generateContent", `STOP`)
	chatWhole   = chat.whole(chat.path, `"finish_reason":"stop"`).opening(`"stream":true,"stream_options":{"include_usage":true}`, `"stream":false`)
	geminiLong  = gemini.long()
	chatLong    = chat.long()
	stored      = responses.opening(`"store":false`, `"store":true`)
)

// whole is the dialect at a path where the answer comes in one piece, which has end in it.
func (d *dialect) whole(path, end string) *dialect {
	other := *d
	other.path, other.end, other.inOnePiece = path, end, true
	return &other
}

// long is the dialect with an answer of many chunks.
func (d *dialect) long() *dialect {
	other := *d
	other.chunks = longChunks
	return &other
}

// opening is the dialect with something else in the beginning of its requests.
func (d *dialect) opening(old, replacement string) *dialect {
	other := *d
	other.shape.open = func(model, instructions string, tools []tool) string {
		return strings.Replace(d.shape.open(model, instructions, tools), old, replacement, 1)
	}
	return &other
}

// benchCases are all of them. Most are one call after the other.
func benchCases() []*benchCase {
	list := []*benchCase{
		{name: "Gemini, streamed", ours: gemini},
		{name: "Chat, streamed", ours: chat},
		{name: "Responses, streamed, not stored", ours: responses},
		{name: "Responses, streamed, stored", ours: stored},
		{name: "Messages, streamed", ours: messages},
		{name: "Gemini, streamed, 64 at once", ours: gemini, clients: 64},
		{name: "Chat, streamed, 64 at once", ours: chat, clients: 64},
		{name: "Gemini, in one piece", ours: geminiWhole, theirs: geminiWhole},
		{name: "Chat, in one piece", ours: chatWhole, theirs: geminiWhole},
		{name: fmt.Sprintf("Gemini, %d chunks", longChunks), ours: geminiLong, theirs: geminiLong, model: longModel},
		{name: fmt.Sprintf("Chat, %d chunks", longChunks), ours: chatLong, theirs: geminiLong, model: longModel},
		{name: "Chat, streamed, log: info", ours: chat, settings: logging},
		{name: "Gemini, streamed, to the Antigravity gateway", ours: gemini, settings: antigravity},
		{name: "Chat, streamed, to the Antigravity gateway", ours: chat, settings: antigravity},
	}
	for _, c := range list {
		c.theirs = cmp.Or(c.theirs, gemini)
		c.model = cmp.Or(c.model, quickModel)
		c.cell = cell{size: caseSize, clients: max(c.clients, 1)}
	}
	return list
}

// measureCases compares perigee with the bare proxy in each case, in processes of their own.
func (b *bench) measureCases(ctx context.Context) error {
	for _, c := range benchCases() {
		if err := b.measureCase(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		b.report.cases = append(b.report.cases, c)
	}
	return nil
}

func (b *bench) measureCase(ctx context.Context, c *benchCase) error {
	fmt.Fprintf(os.Stderr, "bench:   %s\n", c.name)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bare, err := b.spawn(ctx, targetNames[proxy], self, roleProxy, b.provider.Addr)
	if err != nil {
		return err
	}
	defer bare.Stop()
	ours, stop, err := b.startCase(ctx, c.settings)
	if err != nil {
		return err
	}
	defer stop()
	targets := []target{
		direct:  {name: targetNames[direct], process: b.provider, dialect: c.theirs, model: c.model},
		proxy:   {name: targetNames[proxy], process: bare, dialect: c.theirs, model: c.model},
		perigee: {name: targetNames[perigee], process: ours, dialect: c.ours, model: c.model},
	}
	if err := b.compare(ctx, &c.cell, targets, b.plan.caseTurn); err != nil {
		return err
	}
	for _, i := range []int{proxy, perigee} {
		if c.peak[i], err = targets[i].process.Memory("VmHWM"); err != nil {
			return err
		}
	}
	return nil
}

// startCase starts perigee as a case wants it, and whatever that needs.
func (b *bench) startCase(ctx context.Context, s setting) (ours *measure.Process, stop func(), err error) {
	data, err := os.MkdirTemp(b.dir, "case-")
	if err != nil {
		return nil, nil, err
	}
	switch s {
	case logging:
		ours, err = b.startPerigeeWith(ctx, data, "info", b.upstreamConfig("http://"+b.provider.Addr))
	case antigravity:
		return b.startAntigravity(ctx, data)
	default:
		ours, err = b.startPerigee(ctx, data)
	}
	if err != nil {
		return nil, nil, err
	}
	return ours, ours.Stop, nil
}

// startAntigravity starts perigee in front of a gateway: perigee's simulator, which knows accounts
// and tokens, behind a process that answers calls to models itself, as the provider does.
func (b *bench) startAntigravity(ctx context.Context, data string) (ours *measure.Process, stop func(), err error) {
	simulator, err := b.spawn(ctx, "simulator", b.binary, "simulate", "--listen", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	gateway, err := b.spawn(ctx, "gateway", self, roleGateway, simulator.Addr)
	if err != nil {
		return nil, nil, err
	}
	url := "http://" + gateway.Addr
	upstream := fmt.Sprintf("{name: gateway, kind: antigravity, accept_terms_risk: true, endpoints: [%q], oauth: {auth_url: %q, token_url: %q, userinfo_url: %q, client_id: any, client_secret: any-secret}}",
		url, url+"/o/oauth2/v2/auth", url+"/token", url+"/oauth2/v2/userinfo")
	config, err := writeConfig(data, "warn", upstream)
	if err != nil {
		return nil, nil, err
	}
	accounts := filepath.Join(data, "accounts.json")
	if err := os.WriteFile(accounts, []byte(`[{"email":"ada@example.com","refresh_token":"sim-refresh-ada"}]`), 0o600); err != nil {
		return nil, nil, err
	}
	importing := exec.CommandContext(ctx, b.binary, "account", "import", accounts, "--config", config)
	importing.Env = measure.ChildEnv(b.dir)
	if out, err := importing.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("import an account: %w\n%s", err, out)
	}
	ours, err = b.spawn(ctx, "perigee", b.binary, "serve", "--config", config)
	if err != nil {
		return nil, nil, err
	}
	return ours, func() { ours.Stop(); gateway.Stop(); simulator.Stop() }, nil
}

// addedRatio is how many times what the bare proxy adds to the first event perigee adds.
func (c *benchCase) addedRatio() float64 {
	return c.cell.added(perigee) / max(c.cell.added(proxy), 0.001)
}

// cpuRatio is how many times the bare proxy's CPU a call costs perigee.
func (c *benchCase) cpuRatio() float64 { return c.cell.over(cpuRatio) }

// rateRatio is perigee's calls per second over the bare proxy's.
func (c *benchCase) rateRatio() float64 {
	return c.cell.over(func(r round) float64 { return r[perigee].rate / r[proxy].rate })
}

// caseAims judges the cases: what is promised for the other upstream, and what is aimed for in all
// cases, by the worst of them.
func (r *report) caseAims() []promise {
	var list []promise
	var alone, many []*benchCase
	for _, c := range r.cases {
		switch {
		case c.cell.clients > 1:
			many = append(many, c)
		case c.model != longModel: // there chunks come faster than they can be passed on, and what is first is chance
			alone = append(alone, c)
		}
		if c.settings == antigravity {
			found := c.cell.added(perigee)
			list = append(list, promise{what: "added time to first event, " + c.name, limit: "≤ 1.00 ms", found: fmt.Sprintf("%.2f ms", found), kept: found <= 1})
		}
	}
	by := func(figure func(*benchCase) float64) func(a, b *benchCase) int {
		return func(a, b *benchCase) int { return cmp.Compare(figure(a), figure(b)) }
	}
	slowest, costliest, fewest := slices.MaxFunc(alone, by((*benchCase).addedRatio)), slices.MaxFunc(alone, by((*benchCase).cpuRatio)), slices.MinFunc(many, by((*benchCase).rateRatio))
	return append(list,
		promise{what: "added time to first event against ReverseProxy's, most of all cases: " + slowest.name,
			limit: "≤ 2.0", found: fmt.Sprintf("%.1f", slowest.addedRatio()), kept: slowest.addedRatio() <= 2, aim: true},
		promise{what: "CPU against ReverseProxy's, most of all cases: " + costliest.name,
			limit: "≤ 2.0", found: fmt.Sprintf("%.1f", costliest.cpuRatio()), kept: costliest.cpuRatio() <= 2, aim: true},
		promise{what: "calls per second against ReverseProxy's, fewest of all cases: " + fewest.name,
			limit: "≥ 0.80", found: fmt.Sprintf("%.2f", fewest.rateRatio()), kept: fewest.rateRatio() >= 0.8, aim: true})
}

func (r *report) writeCases(s *strings.Builder) {
	if len(r.cases) == 0 {
		return
	}
	table(s, fmt.Sprintf("Beside ReverseProxy, bodies of %s; over is perigee's figure over ReverseProxy's", measure.BytesText(caseSize)),
		"case", "added to first event, ms", "over", "CPU for a call, µs", "over", "calls per second", "over", "at most, MB", "over")
	for _, c := range r.cases {
		cpu := 1000 * c.cell.time(perigee, func(t turn) time.Duration { return t.cpu })
		rate := c.cell.over(func(r round) float64 { return r[perigee].rate })
		fmt.Fprintf(s, "| %s | %.2f | %.1f | %.0f | %.1f | %.0f | %.2f | %.0f | %.1f |\n", c.name, c.cell.added(perigee), c.addedRatio(),
			cpu, c.cpuRatio(), rate, c.rateRatio(), megabytes(c.peak[perigee]), float64(c.peak[perigee])/float64(c.peak[proxy]))
	}
}

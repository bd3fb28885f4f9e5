package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"perigee/bench/internal/measure"
)

// caseSize is the body of most cases: an agent's in the middle of its work.
const caseSize = 100 << 10

// A benchCase is one way to use perigee, beside ReverseProxy, which is asked the same in the
// provider's own dialect.
type benchCase struct {
	name     string
	ours     *dialect
	theirs   *dialect // of the provider alone and of ReverseProxy
	model    string
	clients  int
	size     int // of the body; 0 means caseSize
	settings setting
	wire     *otherWire // of the provider, if it is not Gemini's
	limit    limits

	cell cell
	peak [3]int64 // resident at most, by target; of processes that have answered nothing else
}

// limits are what a case may cost. 0 means no limit.
type limits struct {
	// Ratios to ReverseProxy in the same round.
	added float64 // to the first event, at most
	first float64 // until the first event, at most
	cpu   float64 // at most
	rate  float64 // calls per second, at least
	// Times what a Chat call costs that is translated to Gemini: added to the first event, and CPU.
	translated float64

	until  time.Duration // until the first event, at most
	memory float64       // resident at most, as a multiple of the body
}

// A setting is what is special about perigee's configuration.
type setting int

const (
	usual setting = iota
	logging
	antigravity
	untraced
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
	own, rewritten := limits{added: 2, cpu: 2}, limits{added: 3, cpu: 3}
	list := []*benchCase{
		{name: "Gemini, streamed", ours: gemini, limit: own},
		{name: "Chat, streamed", ours: chat, limit: rewritten},
		{name: "Responses, streamed, not stored", ours: responses, limit: limits{added: 3.5, cpu: 3}},
		{name: "Responses, streamed, stored", ours: stored},
		{name: "Messages, streamed", ours: messages, limit: rewritten},
		{name: "Gemini, streamed, no traces", ours: gemini, settings: untraced},
		{name: "Chat, streamed, no traces", ours: chat, settings: untraced},
		{name: "Gemini, streamed, 8 at once", ours: gemini, clients: 8, limit: limits{rate: 0.75}},
		{name: "Chat, streamed, 8 at once", ours: chat, clients: 8, limit: limits{rate: 0.5}},
		{name: "Messages, streamed, 8 at once", ours: messages, clients: 8, limit: limits{rate: 0.5}},
		{name: "Gemini, 1 KB", ours: gemini, size: 1 << 10},
		{name: "Chat, 1 KB", ours: chat, size: 1 << 10},
		{name: "Messages, 1 KB", ours: messages, size: 1 << 10},
		{name: "Gemini, 1 KB, 8 at once", ours: gemini, size: 1 << 10, clients: 8},
		{name: "Chat, 1 KB, 8 at once", ours: chat, size: 1 << 10, clients: 8},
		{name: "Gemini, 1 KB, no traces", ours: gemini, size: 1 << 10, settings: untraced},
		{name: "Chat, 1 KB, no traces", ours: chat, size: 1 << 10, settings: untraced},
		{name: "Gemini, 1 MB", ours: gemini, size: 1 << 20},
		{name: "Chat, 1 MB", ours: chat, size: 1 << 20, limit: limits{first: 2.5}},
		{name: "Messages, 1 MB", ours: messages, size: 1 << 20},
		{name: "Gemini, 44 MB", ours: gemini, size: 44 << 20},
		{name: "Chat, 44 MB", ours: chat, size: 44 << 20, limit: limits{until: 250 * time.Millisecond, memory: 3.2}},
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
	list = append(list, wireCases()...)
	for _, c := range list {
		c.theirs = cmp.Or(c.theirs, gemini)
		c.model = cmp.Or(c.model, quickModel)
		c.cell = cell{size: cmp.Or(c.size, caseSize), clients: max(c.clients, 1)}
	}
	return list
}

// measureCases compares perigee with the bare proxy in each case, in processes of their own.
func (b *bench) measureCases(ctx context.Context) error {
	for _, c := range benchCases() {
		if !strings.Contains(c.name, b.caseWord) {
			continue
		}
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
	ours, stop, err := b.startCase(ctx, c)
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
func (b *bench) startCase(ctx context.Context, c *benchCase) (ours *measure.Process, stop func(), err error) {
	data, err := os.MkdirTemp(b.dir, "case-")
	if err != nil {
		return nil, nil, err
	}
	switch {
	case c.wire != nil:
		ours, err = b.startPerigeeWith(ctx, data, "warn", fmt.Sprintf(c.wire.upstream, b.provider.Addr))
	case c.settings == logging:
		ours, err = b.startPerigeeWith(ctx, data, "info", b.upstreamConfig("http://"+b.provider.Addr))
	case c.settings == antigravity:
		return b.startAntigravity(ctx, data)
	case c.settings == untraced:
		ours, err = b.startPerigeeWith(ctx, data, noTraces, b.upstreamConfig("http://"+b.provider.Addr))
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

// firstRatio is how many times longer than with the bare proxy the first event takes.
func (c *benchCase) firstRatio() float64 {
	return c.cell.over(func(r round) float64 { return float64(r[perigee].first50) / float64(r[proxy].first50) })
}

// cpuRatio is how many times the bare proxy's CPU a call costs perigee.
func (c *benchCase) cpuRatio() float64 { return c.cell.over(cpuRatio) }

// rateRatio is perigee's calls per second over the bare proxy's.
func (c *benchCase) rateRatio() float64 {
	return c.cell.over(func(r round) float64 { return r[perigee].rate / r[proxy].rate })
}

// caseLimits judges the cases by their limits, and by the time that is promised for the gateway.
func (r *report) caseLimits() (list []promise) {
	for _, c := range r.cases {
		if c.settings == antigravity {
			found := c.cell.added(perigee)
			list = append(list, promise{what: "added time to first event, " + c.name, limit: "≤ 1.00 ms", found: fmt.Sprintf("%.2f ms", found), kept: found <= 1})
		}
		atMost := func(what string, limit, found float64) {
			if limit > 0 {
				list = append(list, promise{what: what + " against ReverseProxy's, " + c.name, limit: fmt.Sprintf("≤ %.1f", limit),
					found: fmt.Sprintf("%.2f", found), kept: found <= limit, aim: true})
			}
		}
		atMost("added time to first event", c.limit.added, c.addedRatio())
		atMost("time to first event", c.limit.first, c.firstRatio())
		atMost("CPU for a call", c.limit.cpu, c.cpuRatio())
		if base := r.caseNamed("Chat, streamed"); base != nil {
			atMost := func(what string, found float64) {
				if limit := c.limit.translated; limit > 0 {
					list = append(list, promise{what: what + " against Chat to Gemini, " + c.name, limit: fmt.Sprintf("≤ %.1f", limit),
						found: fmt.Sprintf("%.2f", found), kept: found <= limit, aim: true})
				}
			}
			atMost("added time to first event", c.addedRatio()/base.addedRatio())
			atMost("CPU for a call", c.cpuRatio()/base.cpuRatio())
		}
		if limit := c.limit.until; limit > 0 {
			found := c.cell.time(perigee, func(t turn) time.Duration { return t.first50 })
			list = append(list, promise{what: "time to first event, " + c.name, limit: fmt.Sprintf("≤ %d ms", limit.Milliseconds()),
				found: fmt.Sprintf("%.0f ms", found), kept: found <= float64(limit.Milliseconds()), aim: true})
		}
		if limit := c.limit.memory; limit > 0 {
			found := float64(c.peak[perigee]) / float64(c.cell.size)
			list = append(list, promise{what: "resident at most, " + c.name, limit: fmt.Sprintf("≤ %.1f times the body", limit),
				found: fmt.Sprintf("%.1f times", found), kept: found <= limit, aim: true})
		}
		if limit := c.limit.rate; limit > 0 {
			list = append(list, promise{what: "calls per second against ReverseProxy's, " + c.name, limit: fmt.Sprintf("≥ %.2f", limit),
				found: fmt.Sprintf("%.2f", c.rateRatio()), kept: c.rateRatio() >= limit, aim: true})
		}
	}
	return list
}

// caseNamed returns the measured case with a name, or nil.
func (r *report) caseNamed(name string) *benchCase {
	for _, c := range r.cases {
		if c.name == name {
			return c
		}
	}
	return nil
}

func (r *report) writeCases(s *strings.Builder) {
	if len(r.cases) == 0 {
		return
	}
	table(s, fmt.Sprintf("Beside ReverseProxy, bodies of %s where the case does not name another size; over is perigee's figure over ReverseProxy's", measure.BytesText(caseSize)),
		"case", "added to first event, ms", "over", "CPU for a call, µs", "over", "calls per second", "over", "at most, MB", "over")
	for _, c := range r.cases {
		cpu := 1000 * c.cell.time(perigee, func(t turn) time.Duration { return t.cpu })
		rate := c.cell.over(func(r round) float64 { return r[perigee].rate })
		fmt.Fprintf(s, "| %s | %.2f | %.1f | %.0f | %.1f | %.0f | %.2f | %.0f | %.1f |\n", c.name, c.cell.added(perigee), c.addedRatio(),
			cpu, c.cpuRatio(), rate, c.rateRatio(), megabytes(c.peak[perigee]), float64(c.peak[perigee])/float64(c.peak[proxy]))
	}
}

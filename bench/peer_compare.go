package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"perigee/bench/internal/measure"
)

// A gateway is perigee or a peer, in one comparison.
type gateway struct {
	name, version string
	peer          *peer // nil for perigee
	program       string
	process       *measure.Process
	trouble       string // why it could not be measured at all
	binary        int64
	resident      int64 // after the load and a pause
}

func (g *gateway) String() string { return strings.TrimSpace(g.name + " " + g.version) }

// target says how to ask the gateway in a dialect, and whether it can be asked.
func (g *gateway) target(d *dialect) (target, bool) {
	call := peerCall{path: d.path}
	if g.peer != nil {
		var ok bool
		if call, ok = g.peer.calls[d]; !ok {
			return target{}, false
		}
	}
	return target{name: g.name, process: g.process, dialect: d.beside(call.path), model: call.model, key: peerKey}, true
}

// A peerCell is the comparison of all gateways in one dialect. Rounds have the provider first, then
// the measured gateways.
type peerCell struct {
	dialect  *dialect
	cell     *cell
	measured []*gateway
	void     map[*gateway]string // gateways that were not measured, and why
}

// place is where a gateway's turns are in the rounds.
func (c *peerCell) place(g *gateway) (int, bool) {
	for i, other := range c.measured {
		if g == other {
			return 1 + i, true
		}
	}
	return 0, false
}

const peerBody = 100 << 10

// peerDialects are in the order of the promises: those that have to be translated first.
var peerDialects = []*dialect{chat, responses, messages, gemini}

// buildPeers builds all peers. One that cannot be built is named in the report, and the rest is
// measured.
func (b *bench) buildPeers(ctx context.Context) {
	b.peers.gateways = []*gateway{{name: "perigee", program: b.binary, binary: b.report.weight.binary}}
	for _, p := range peers {
		fmt.Fprintf(os.Stderr, "bench: building %s %s; the first time this takes minutes\n", p.name, p.version)
		g := &gateway{name: p.name, version: p.version, peer: p}
		b.peers.gateways = append(b.peers.gateways, g)
		var err error
		if g.program, err = b.buildPeer(ctx, p); err == nil {
			var info os.FileInfo
			if info, err = os.Stat(g.program); err == nil {
				g.binary = info.Size()
			}
		}
		g.fail(err)
	}
}

// fail notes that the gateway takes no further part.
func (g *gateway) fail(err error) {
	if err != nil {
		g.trouble = oneLine(err)
		fmt.Fprintf(os.Stderr, "bench: %v is not measured: %s\n", g, g.trouble)
	}
}

// measurePeers asks all gateways the same, in turns, and looks at their memory in the end. Only
// trouble with perigee or the provider is an error.
func (b *bench) measurePeers(ctx context.Context) error {
	for _, g := range b.peers.gateways {
		switch {
		case g.trouble != "":
			continue
		case g.peer != nil:
			var err error
			g.process, err = b.startPeer(ctx, g.peer, g.program)
			g.fail(err)
		default:
			data, err := os.MkdirTemp(b.dir, "peers-")
			if err != nil {
				return err
			}
			if g.process, err = b.startPerigee(ctx, data); err != nil {
				return err
			}
		}
	}
	for _, d := range peerDialects {
		c, err := b.comparePeers(ctx, d)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		b.peers.cells = append(b.peers.cells, c)
	}
	if err := pause(ctx, b.plan.idle); err != nil {
		return err
	}
	for _, g := range b.peers.gateways {
		if g.trouble == "" {
			var err error
			if g.resident, err = g.process.Memory("VmRSS"); err != nil {
				return fmt.Errorf("%v: %w", g, err)
			}
		}
	}
	return nil
}

// comparePeers asks all gateways in one dialect. A peer that gives another answer than the
// provider's, or none, is left out, and the rest is compared again without it.
func (b *bench) comparePeers(ctx context.Context, d *dialect) (*peerCell, error) {
	c := &peerCell{dialect: d, void: map[*gateway]string{}}
	for {
		targets := []target{{name: targetNames[direct], process: b.provider, dialect: gemini.beside(gemini.path), key: peerKey}}
		c.cell, c.measured = &cell{size: peerBody, clients: 1}, nil
		for _, g := range b.peers.gateways {
			if _, ok := c.void[g]; ok {
				continue
			}
			t, ok := g.target(d)
			switch {
			case g.trouble != "":
				c.void[g] = g.trouble
			case !ok:
				c.void[g] = "it does not serve this dialect"
			default:
				targets, c.measured = append(targets, t), append(c.measured, g)
			}
		}
		fmt.Fprintf(os.Stderr, "bench:   %s\n", d.name)
		err := b.compare(ctx, c.cell, targets, b.plan.peerTurn)
		failed, ok := errors.AsType[*targetError](err)
		if !ok || ctx.Err() != nil || failed.target == direct || c.measured[failed.target-1].peer == nil {
			return c, err
		}
		g := c.measured[failed.target-1]
		c.void[g] = oneLine(failed.err)
		fmt.Fprintf(os.Stderr, "bench:   %s: %v is left out: %s\n", d.name, g, c.void[g])
	}
}

// oneLine makes an error fit for a table.
func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	text = strings.ReplaceAll(text, "|", "/")
	if runes := []rune(text); len(runes) > 240 {
		text = string(runes[:240]) + " …"
	}
	return text
}

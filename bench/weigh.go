package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"perigee/bench/internal/measure"
)

// weighTimes is how many times its body a call may take at most, and weighSpare what small bodies
// may take beside that.
const (
	weighTimes = 4
	weighSpare = 32 << 20
)

// A weighing is what one body of one shape cost perigee, in a fresh process.
type weighing struct {
	shape  *bodyShape
	kind   setting // of the upstream
	size   int
	status int
	base   int64 // resident before, after one small call
	peak   int64 // resident at most
	took   time.Duration
}

// times is how many bodies would fit into the memory that the call took.
func (w weighing) times() float64 { return float64(w.peak-w.base) / float64(w.size) }

// over is how much more than allowed it took, in bytes.
func (w weighing) over() int64 { return w.peak - w.base - weighTimes*int64(w.size) - weighSpare }

func (w weighing) String() string {
	via := ""
	if w.kind == antigravity {
		via = ", Antigravity"
	}
	return fmt.Sprintf("%s %s%s, %s", w.shape.path, w.shape.name, via, measure.BytesText(int64(w.size)))
}

// measureShapes sends bodies of many shapes, each to a fresh perigee: most memory is not needed for
// large texts but for many small pieces.
func (b *bench) measureShapes(ctx context.Context) error {
	for _, way := range []struct {
		kind  setting
		sizes []int
	}{{usual, b.plan.shapeSizes}, {antigravity, b.plan.shapeSizes[:1]}} {
		for _, size := range way.sizes {
			for _, shape := range shapesOf(size) {
				if !strings.Contains(shape.path+" "+shape.name, b.shape) {
					continue
				}
				w, err := b.weigh(ctx, weighing{shape: &shape, kind: way.kind, size: size})
				if err != nil {
					return fmt.Errorf("%v: %w", w, err)
				}
				if w.over() > 0 {
					fmt.Fprintf(os.Stderr, "bench:   %v: %.1f times\n", w, w.times())
				}
				b.report.weighings = append(b.report.weighings, w)
			}
		}
	}
	return nil
}

// shapesOf are all shapes, and those that are refused again with as few pieces as are not refused.
func shapesOf(size int) []bodyShape {
	list := bodyShapes()
	for _, shape := range list {
		if limited, ok := shape.atLimit(size); ok {
			list = append(list, limited)
		}
	}
	return list
}

// weigh sends one body to a fresh perigee.
func (b *bench) weigh(ctx context.Context, w weighing) (weighing, error) {
	p, stop, err := b.startCase(ctx, &benchCase{settings: w.kind})
	if err != nil {
		return w, err
	}
	defer stop()
	if err := firstAnswer(ctx, p, gemini, quickModel); err != nil {
		return w, err
	}
	if w.base, err = p.Memory("VmRSS"); err != nil {
		return w, err
	}
	body := w.shape.body(w.size)
	w.size = len(body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.Addr+w.shape.path, bytes.NewReader(body))
	if err != nil {
		return w, err
	}
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return w, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	w.status, w.took = resp.StatusCode, time.Since(began)
	w.peak, err = p.Memory("VmHWM")
	return w, err
}

// shapePromise is about the worst of them.
func (r *report) shapePromise() (promise, bool) {
	if len(r.weighings) == 0 {
		return promise{}, false
	}
	worst := slices.MaxFunc(r.weighings, func(a, b weighing) int { return cmp.Compare(a.over(), b.over()) })
	return promise{
		what:  fmt.Sprintf("memory for a body of any shape, beyond %s, worst: %v", measure.BytesText(weighSpare), worst),
		limit: fmt.Sprintf("≤ %d times", weighTimes), found: fmt.Sprintf("%.1f times", float64(worst.peak-worst.base-weighSpare)/float64(worst.size)), kept: worst.over() <= 0,
	}, true
}

func (r *report) writeShapes(s *strings.Builder) {
	if len(r.weighings) == 0 {
		return
	}
	list := slices.Clone(r.weighings)
	slices.SortStableFunc(list, func(a, b weighing) int { return cmp.Compare(b.over(), a.over()) })
	table(s, fmt.Sprintf("Bodies of many small pieces: the 30 heaviest of %d", len(list)), "body", "answer", "time, ms", "resident at most, MB", "of which for the call", "times the body")
	for _, w := range list[:min(30, len(list))] {
		fmt.Fprintf(s, "| %v | %d | %.0f | %.0f | %.0f | %.1f |\n", w, w.status, milliseconds(w.took), megabytes(w.peak), megabytes(w.peak-w.base), w.times())
	}
}

package main

import (
	"strings"
	"testing"
	"time"

	"perigee/bench/internal/measure"
)

func TestQuantile(t *testing.T) {
	var hundred []int
	for i := range 100 {
		hundred = append(hundred, 100-i)
	}
	for _, test := range []struct {
		values []int
		q      float64
		want   int
	}{
		{nil, 0.5, 0}, {[]int{7}, 0.99, 7}, {[]int{3, 1, 2}, 0.5, 2}, {hundred, 0.5, 51}, {hundred, 0.99, 100}, {hundred, 1, 100},
	} {
		if got := measure.Quantile(test.values, test.q); got != test.want {
			t.Errorf("measure.Quantile(%v, %v) = %d, want %d", test.values, test.q, got, test.want)
		}
	}
}

// goodReport keeps every promise.
func goodReport() *report {
	r := &report{machine: "a machine", weight: weight{
		binary: 18 << 20, firstStart: start{20 * time.Millisecond, 18 * time.Millisecond}, laterStart: start{10 * time.Millisecond, 9 * time.Millisecond}, idle: 14 << 20, afterLoad: 25 << 20,
	}}
	for _, c := range comparisons() {
		for _, noise := range []time.Duration{0, 50, 1} { // the second round is an outlier that a median ignores
			c.rounds = append(c.rounds, round{
				direct:  {first50: 100 * time.Microsecond, rate: 5000},
				proxy:   {first50: 200 * time.Microsecond, rate: 4000, cpu: 200 * time.Microsecond},
				perigee: {first50: 300*time.Microsecond + noise*time.Millisecond/2, rate: 3000, cpu: 280*time.Microsecond + noise*time.Microsecond},
			})
		}
		r.cells = append(r.cells, c)
	}
	for _, c := range translations() {
		c.rounds = []round{{
			direct: {first50: 100 * time.Microsecond, first99: time.Millisecond},
			1:      {first50: 400 * time.Microsecond, first99: 3 * time.Millisecond, cpu: 900 * time.Microsecond},
			2:      {first50: 500 * time.Microsecond, first99: 4 * time.Millisecond},
			3:      {first50: 600 * time.Microsecond, first99: 5 * time.Millisecond},
		}}
		r.translations = append(r.translations, c)
	}
	r.late = []lateRound{{
		direct:      {p50: 100 * time.Microsecond, p99: time.Millisecond},
		proxy:       {p50: 400 * time.Microsecond, p99: 2 * time.Millisecond, cpu: 20 * time.Microsecond},
		perigee:     {p50: 500 * time.Microsecond, p99: 3 * time.Millisecond, cpu: 30 * time.Microsecond},
		perigee + 1: {p50: 600 * time.Microsecond, p99: 3 * time.Millisecond, cpu: 40 * time.Microsecond},
	}}
	for _, d := range dialects {
		r.allocations = append(r.allocations, allocation{d.name, 100 << 10, 1234, 150 << 10})
	}
	for _, way := range growthWays() {
		for _, size := range way.sizes {
			r.growth = append(r.growth, growth{way: way.name, size: size, cpu: time.Duration(size), base: 14 << 20, peak: 14<<20 + 3*int64(size)})
		}
	}
	return r
}

func TestPromisesAreJudged(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(*report)
		line  string // of the table, which must say so
	}{
		"all kept": {func(*report) {}, ""},
		"slow": {func(r *report) {
			for i := range r.cells[1].rounds {
				r.cells[1].rounds[i][perigee].first50 = 1200 * time.Microsecond
			}
		}, "| added time to first event, Gemini, 100 KB, one after the other | ≤ 1.00 ms | 1.10 ms | **broken** |"},
		"costly": {func(r *report) {
			for i := range r.cells[1].rounds {
				r.cells[1].rounds[i][perigee].cpu = 400 * time.Microsecond
			}
		}, "| CPU against ReverseProxy, 100 KB, one after the other | ≤ 1.50 | 2.00 | **broken** |"},
		"slow in a dialect": {func(r *report) { r.translations[1].rounds[0][2].first50 = 1200 * time.Microsecond },
			"| added time to first event, Responses, 100 KB, one after the other | ≤ 1.00 ms | 1.10 ms | **broken** |"},
		"slow in a dialect with other bodies": {func(r *report) { r.translations[2].rounds[0][2].first50 = time.Second }, ""},
		"slow start":                          {func(r *report) { r.weight.firstStart.took = time.Second }, "| start, empty data directory | ≤ 100 ms | 1000 ms | **broken** |"},
		"busy start":                          {func(r *report) { r.weight.firstStart.cpu = 21 * time.Millisecond }, "| CPU until listening, empty data directory | ≤ 20.0 ms | 21.0 ms | **broken** |"},
		"busy later start":                    {func(r *report) { r.weight.laterStart.cpu = 21 * time.Millisecond }, "| CPU until listening, later | ≤ 20.0 ms | 21.0 ms | **broken** |"},
		"fat":                                 {func(r *report) { r.weight.idle = 31 << 20 }, "| resident when idle, after start | ≤ 30.0 MB | 31.0 MB | **broken** |"},
		"stays fat":                           {func(r *report) { r.weight.afterLoad = 40 << 20 }, "| resident when idle, after load | ≤ 30.0 MB | 40.0 MB | **broken** |"},
		"large":                               {func(r *report) { r.weight.binary = 37 << 20 }, "| binary, stripped | ≤ 36.0 MB | 37.0 MB | **broken** |"},
		"copies":                              {func(r *report) { r.growth[4].peak = 300 << 20 }, "| memory for a body of 50 MB, Gemini | ≤ 4.0 times | 5.7 times | **broken** |"},
		"not linear":                          {func(r *report) { r.growth[4].cpu *= 2 }, "| CPU per byte, 50 MB against 10 MB, Gemini | ≤ 1.25 | 2.00 | **broken** |"},
		"copies in a dialect":                 {func(r *report) { r.growth[18].peak = 100 << 20 }, "| memory for a body of 10 MB, Messages | ≤ 4.0 times | 8.6 times | **broken** |"},
		"not linear in a dialect":             {func(r *report) { r.growth[9].cpu *= 2 }, "| CPU per byte, 50 MB against 10 MB, Chat | ≤ 1.25 | 2.00 | **broken** |"},
		"copies on another wire":              {func(r *report) { r.growth[22].peak = 300 << 20 }, "| memory for a body of 50 MB, Gemini to Chat | ≤ 4.0 times | 5.7 times | **broken** |"},
		"not linear on another wire":          {func(r *report) { r.growth[25].cpu *= 2 }, "| CPU per byte, 50 MB against 10 MB, Chat to Chat | ≤ 1.25 | 2.00 | **broken** |"},
		"late":                                {func(r *report) { r.late[0][perigee+1].p50 = 900 * time.Microsecond }, "| a chunk of 50 slow streams comes later than from ReverseProxy, perigee, Chat | ≤ 0.30 ms | 0.50 ms | **broken** |"},
		"small heavy":                         {func(r *report) { r.growth[0].peak = 40 << 20 }, ""}, // a process is more than a small body
	} {
		t.Run(name, func(t *testing.T) {
			r := goodReport()
			test.spoil(r)
			text := r.markdown()
			if r.broken() != (test.line != "") || strings.Contains(text, "broken") != r.broken() || !strings.Contains(text, test.line) {
				t.Errorf("broken: %v; want %q in\n%s", r.broken(), test.line, text)
			}
		})
	}
}

// Only calls one after the other have a promised ratio. The rest is for information.
func TestRatioOfManyAtOnceIsOnlyTold(t *testing.T) {
	r := goodReport()
	for i := range r.cells[4].rounds {
		r.cells[4].rounds[i][perigee].cpu = 400 * time.Microsecond
	}
	const line = "| CPU against ReverseProxy, 100 KB, 16 at once | – | 2.00 | for information |"
	if text := r.markdown(); r.broken() || !strings.Contains(text, line) {
		t.Errorf("broken: %v; want %q in\n%s", r.broken(), line, text)
	}
}

func TestReportShowsAddedTimeAndRatio(t *testing.T) {
	text := goodReport().markdown()
	for _, line := range []string{
		"| 100 KB | perigee | 0.80 |", // the median of 0.3, 25.3 and 0.8
		"| 1 KB, 16 at once | 200 | 281 | 1.41 | 1.40 – 1.65 | 5000 | 4000 | 3000 |",
		"| 100 KB | direct, Gemini | 0.10 | 1.00 | – | – |",
		"| 100 KB | Chat | 0.40 | 3.00 | 0.30 | 2.00 | 0.00 | 900 |",
		"| 100 KB | Messages | 1234 | 150.0 | 1.5 |",
		"| perigee, Chat | 0.60 | 3.00 | +0.20 | 40 |",
		"| Gemini | 50 MB | 52.43 | 1.00 | 14.0 | 164.0 | 3.0 |",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}

func TestReplaceSection(t *testing.T) {
	beginMark, endMark := marks(peersSection)
	readme := "# before\n" + beginMark + "old\n" + endMark + "after\n"
	got, err := replaceSection(readme, peersSection, "new\n")
	if want := "# before\n" + beginMark + "\nnew\n\n" + endMark + "after\n"; got != want || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	again, err := replaceSection(got, peersSection, "new")
	if again != got || err != nil {
		t.Errorf("a second time: %q, %v", again, err)
	}
	for _, bad := range []string{"", beginMark, endMark + beginMark} {
		if _, err := replaceSection(bad, peersSection, "new"); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

package models

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/lib/lazyregexp"
	"perigee/internal/lib/match"
)

//go:embed prices.tsv
var prices string

// A Price is the price of a model, in US dollars per million tokens.
type Price struct {
	Input, Output float64
	Cached        float64 // of input that was cached; Input if 0; nothing if Free
	Thinking      float64 // of output that is thinking; Output if 0

	// Of input that is written to the provider's cache, for some minutes and for an hour. CacheWrite
	// is 1.25 times Input if 0, and nothing if Free. CacheWriteHour is 1.6 times CacheWrite if 0, as
	// Anthropic charges it.
	CacheWrite, CacheWriteHour float64

	// For calls with more than perigee.LongPrompt input tokens; if 0, the price for shorter ones.
	// Thinking then has no price of its own.
	LongInput, LongCached, LongOutput float64
}

// FreePrice is a price of nothing, for Cached, LongCached and CacheWrite.
const FreePrice = -1

// A PriceEntry is the price of the models that match a pattern.
type PriceEntry struct {
	Model string    // a name, or a pattern with * and ?
	From  time.Time // the price holds from then on; zero if always
	Price
}

// A PriceTable is a list of prices. It does not change.
type PriceTable struct {
	Date     string // of the list prices, as 2026-01-31
	own      []PriceEntry
	standard []PriceEntry
	changes  []time.Time // when a price changes, in order
}

// LoadPrices returns the list prices, with entries that take precedence over them. The error names
// the entry that is invalid.
func LoadPrices(entries []PriceEntry) (*PriceTable, error) {
	t := &PriceTable{own: slices.Clone(entries)}
	var err error
	if t.Date, t.standard, err = read(prices); err != nil {
		return nil, err
	}
	for _, list := range [][]PriceEntry{t.own, t.standard} {
		for i := range list {
			if err := list[i].complete(); err != nil {
				return nil, fmt.Errorf("price of %s: %w", list[i].Model, err)
			}
			if from := list[i].From; !from.IsZero() && !slices.Contains(t.changes, from) {
				t.changes = append(t.changes, from)
			}
		}
		slices.SortStableFunc(list, before)
	}
	slices.SortFunc(t.changes, time.Time.Compare)
	return t, nil
}

// before orders entries for a search that takes the first match: names before patterns, specific
// patterns before general ones, and of the prices of one model the newest.
func before(a, b PriceEntry) int {
	switch isPattern := match.IsPattern(a.Model); {
	case isPattern != match.IsPattern(b.Model) && isPattern:
		return 1
	case isPattern != match.IsPattern(b.Model):
		return -1
	case a.Model == b.Model:
		return b.From.Compare(a.From)
	}
	return match.BySpecificity(a.Model, b.Model)
}

// complete checks a price, and fills in the prices that default to another one.
func (e *PriceEntry) complete() error {
	p := &e.Price
	for _, amount := range []float64{p.Input, p.Output, max(p.Cached, 0), max(p.CacheWrite, 0), p.CacheWriteHour, p.Thinking, p.LongInput, max(p.LongCached, 0), p.LongOutput} {
		if amount < 0 || math.IsNaN(amount) || math.IsInf(amount, 0) {
			return fmt.Errorf("%v is not an amount", amount)
		}
	}
	if p.Thinking > 0 && p.LongOutput > 0 {
		return errors.New("thinking cannot have a price of its own where long prompts have one")
	}
	setDefault := func(value *float64, other float64) {
		if *value == 0 {
			*value = other
		}
	}
	if p.LongInput > 0 {
		setDefault(&p.LongCached, p.LongInput)
	}
	setDefault(&p.Cached, p.Input)
	setDefault(&p.LongInput, p.Input)
	setDefault(&p.LongCached, p.Cached)
	setDefault(&p.LongOutput, p.Output)
	setDefault(&p.Thinking, p.Output)
	setDefault(&p.CacheWrite, minutesFactor*p.Input)
	p.Cached, p.LongCached, p.CacheWrite = max(p.Cached, 0), max(p.LongCached, 0), max(p.CacheWrite, 0)
	setDefault(&p.CacheWriteHour, hourFactor/minutesFactor*p.CacheWrite)
	return nil
}

// The default prices of writing to a cache, in multiples of the price of input.
const (
	minutesFactor = 1.25
	hourFactor    = 2
)

// read parses the table: comments, a head line, and a line for each price.
func read(text string) (date string, entries []PriceEntry, err error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	var head []string
	for lines.Scan() {
		line := lines.Text()
		if comment, ok := strings.CutPrefix(line, "#"); ok {
			if value, ok := strings.CutPrefix(strings.TrimSpace(comment), "date: "); ok {
				date = value
			}
			continue
		}
		cells := strings.Split(line, "\t")
		if head == nil {
			head = cells
			continue
		}
		e, err := readEntry(head, cells)
		if err != nil {
			return "", nil, fmt.Errorf("prices.tsv: %q: %w", line, err)
		}
		entries = append(entries, e)
	}
	return date, entries, nil
}

func readEntry(head, cells []string) (e PriceEntry, err error) {
	if len(cells) != len(head) {
		return e, fmt.Errorf("%d cells, want %d", len(cells), len(head))
	}
	amounts := map[string]*float64{"input": &e.Input, "cached": &e.Cached, "output": &e.Output, "thinking": &e.Thinking,
		"cache_write": &e.CacheWrite, "long_input": &e.LongInput, "long_cached": &e.LongCached, "long_output": &e.LongOutput}
	for i, name := range head {
		cell, amount := cells[i], amounts[name]
		switch {
		case name == "model":
			e.Model = cell
		case cell == "-":
		case name == "from":
			e.From, err = time.Parse(time.DateOnly, cell)
		case amount != nil:
			*amount, err = strconv.ParseFloat(cell, 64)
		}
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

// Price returns the price of a model at a time.
func (t *PriceTable) Price(model string, at time.Time) (Price, bool) {
	model = strings.ToLower(strings.TrimPrefix(model, "models/"))
	for _, list := range [][]PriceEntry{t.own, t.standard} {
		if len(list) == 0 {
			continue
		}
		if p, ok := find(list, model, at); ok {
			return p, true
		}
		if p, ok := find(list, baseName(model), at); ok {
			return p, true
		}
	}
	return Price{}, false
}

// has reports whether a model has a price at a time.
func (t *PriceTable) has(model string, at time.Time) bool {
	_, ok := t.Price(model, at)
	return ok
}

// find returns the price of the first entry for a name.
func find(list []PriceEntry, name string, at time.Time) (Price, bool) {
	for i := range list {
		e := &list[i]
		fits := strings.EqualFold(e.Model, name) || match.IsPattern(e.Model) && match.Pattern(strings.ToLower(e.Model), name)
		if fits && !at.Before(e.From) {
			return e.Price, true
		}
	}
	return Price{}, false
}

// variant is a part of a name that does not change the price: how much a model thinks, how old a
// version is.
var variant = lazyregexp.New(`(?:\([^()]*\)|-(?:minimal|low|extra-low|medium|high|thinking|preview|latest|customtools|\d{4}-\d{2}-\d{2}|\d{2}-\d{2,4}|\d{3}|\d{8}))$`)

// baseName returns the name of a model without its variants.
func baseName(model string) string {
	for {
		shorter := variant().ReplaceAllString(model, "")
		if shorter == model || shorter == "" {
			return model
		}
		model = shorter
	}
}

// Cost returns the cost of a call of a model at a time. A call without tokens costs nothing,
// whatever the model is.
func (t *PriceTable) Cost(model string, at time.Time, u perigee.Usage) perigee.Cost {
	if u.Input > perigee.LongPrompt {
		return t.sum(model, at, u, u)
	}
	return t.sum(model, at, u, perigee.Usage{})
}

// sum returns the cost of all tokens; long is the part of them from calls with long prompts.
func (t *PriceTable) sum(model string, at time.Time, all, long perigee.Usage) perigee.Cost {
	if all == (perigee.Usage{}) {
		return perigee.USD(0)
	}
	p, ok := t.Price(model, at)
	if !ok {
		return perigee.Cost{}
	}
	fresh, thinking := max(0, all.Input-all.Cached-all.Written), min(all.Thinking, all.Output)
	longFresh := max(0, long.Input-long.Cached-long.Written)
	longWritten := max(0, long.Written-long.WrittenHour)
	written := max(0, all.Written-all.WrittenHour-longWritten)
	dollars := float64(fresh-longFresh)*p.Input + float64(longFresh)*p.LongInput +
		float64(all.Cached-long.Cached)*p.Cached + float64(long.Cached)*p.LongCached +
		float64(written)*p.CacheWrite + float64(longWritten)*(p.CacheWrite+minutesFactor*(p.LongInput-p.Input)) + float64(all.WrittenHour)*p.CacheWriteHour
	if p.LongOutput == p.Output {
		dollars += float64(all.Output-thinking)*p.Output + float64(thinking)*p.Thinking
	} else { // thinking costs as much as other output where long prompts cost more
		dollars += float64(all.Output-long.Output)*p.Output + float64(long.Output)*p.LongOutput
	}
	return perigee.USD(dollars / 1e6)
}

// Unpriced returns the models without a price at a time, among those that match one of the
// patterns, or among all if there is no pattern. Models that are empty or patterns themselves are
// left out.
func (t *PriceTable) Unpriced(models, patterns []string, at time.Time) (list []string) {
	for _, model := range models {
		_, ok := t.Price(model, at)
		fits := func(pattern string) bool { return match.Pattern(pattern, model) }
		if !ok && model != "" && !match.IsPattern(model) && !slices.Contains(list, model) &&
			(len(patterns) == 0 || slices.ContainsFunc(patterns, fits)) {
			list = append(list, model)
		}
	}
	return list
}

package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"perigee/internal/adapt/models"
	"perigee/internal/lib/netguard"
)

// PriceBook returns the prices in force. Calls of some kinds of upstreams cost nothing.
func (c *Config) PriceBook() *models.PriceBook {
	free := []string{KindSimulator} // the name of the built-in one
	var local []string
	for _, u := range c.Upstreams {
		switch {
		case KindOf(u.Kind).Free:
			free = append(free, u.Name)
		case u.IsLocal():
			local = append(local, u.Name)
		}
	}
	return models.NewPriceBook(c.priceTable(), free...).AddLocal(local...)
}

// IsLocal reports whether an upstream is a server of models on this machine. A local address of the
// Gemini API is none: it leads to the provider, which charges for the calls.
func (u *Upstream) IsLocal() bool {
	address, err := url.Parse(u.URL)
	return err == nil && (u.Kind == KindOpenAI || u.Kind == KindAnthropic || u.Kind == KindOllama) && netguard.IsLoopback(address.Hostname())
}

func (c *Config) priceTable() *models.PriceTable {
	var entries []models.PriceEntry
	for _, p := range c.Prices {
		entries = append(entries, models.PriceEntry{Model: p.Model, Price: models.Price{Input: p.Input, Cached: cachedPrice(p.Cached), CacheWrite: cachedPrice(p.CacheWrite), Output: p.Output,
			LongInput: p.LongInput, LongCached: cachedPrice(p.LongCached), LongOutput: p.LongOutput}})
	}
	table, err := models.LoadPrices(entries)
	if err != nil {
		panic("config: " + err.Error()) // amounts below 0 have not been decoded
	}
	return table
}

// cachedPrice returns a price that is not set below 0 as package models has it.
func cachedPrice(amount float64) float64 {
	switch {
	case amount < 0:
		return 0 // it has a default
	case amount == 0:
		return models.FreePrice
	}
	return amount
}

// checkPrices reports models that have two prices.
func (l *loader) checkPrices() {
	seen := make(map[string]bool)
	for i, p := range l.Config.Prices {
		if key := itemKey("prices", i) + ".model"; seen[p.Model] && p.Model != "" {
			l.problem(key, fmt.Sprintf("%s: %s has a price already", key, p.Model), "keep one of them")
		}
		seen[p.Model] = true
	}
}

// checkBudgets warns about keys with cost_per_day that may use models without a price: models that
// the configuration names, and those that an upstream can have.
func (l *loader) checkBudgets() {
	known := slices.DeleteFunc(slices.Clone(l.src.Models), func(model string) bool { return !l.Config.canHave(model) })
	known = append(known, l.Config.Models.Default, l.Config.Models.Fallback)
	prices := l.Config.priceTable()
	for i, k := range l.Config.Keys {
		unpriced := prices.Unpriced(append(slices.Clone(k.Models), known...), k.Models, l.src.Now())
		if key := itemKey("keys", i) + ".cost_per_day"; k.CostPerDay > 0 && len(unpriced) > 0 {
			l.warn(key, "%s: calls of %s do not count, because their price is unknown; add it under prices", key, strings.Join(unpriced, ", "))
		}
	}
}

// canHave reports whether an upstream with calls that cost something can have a known model.
func (c *Config) canHave(model string) bool {
	spec, _ := models.Lookup(model)
	return slices.ContainsFunc(c.Upstreams, func(u Upstream) bool {
		k := KindOf(u.Kind)
		return !k.Free && !slices.Contains(k.Lacks, spec.Family)
	})
}

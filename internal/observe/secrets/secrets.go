// Package secrets collects the secrets that perigee knows, so that they can be replaced wherever
// calls are recorded or shown. The set changes all the time: access tokens are refreshed, windows
// open, the configuration is reloaded.
package secrets

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee"
	"perigee/internal/lib/redact"
	"perigee/internal/store/config"
)

// A Named secret has a descriptive name, such as "keys[0].secret" or "admin token". The name is not
// secret.
type Named struct {
	Name   string
	Secret perigee.Secret
}

// All returns the secrets with one name.
func All(name string, list ...perigee.Secret) []Named {
	named := make([]Named, 0, len(list))
	for _, s := range list {
		if !s.IsZero() {
			named = append(named, Named{name, s})
		}
	}
	return named
}

// OfConfig returns the secrets of a configuration, by their keys.
func OfConfig(cfg *config.Config) (list []Named) {
	for key, secret := range cfg.NamedSecrets() {
		list = append(list, Named{key, secret})
	}
	return list
}

// OfAccounts returns the tokens of the accounts of an upstream.
func OfAccounts(upstream string, roster interface {
	Secrets() (refresh, access []perigee.Secret)
}) []Named {
	refresh, access := roster.Secrets()
	return append(All("refresh token of upstream "+upstream, refresh...), All("access token of upstream "+upstream, access...)...)
}

// OfUpstream returns the tokens that an upstream itself has, if it lists some: tokens of language
// servers and windows, and of credentials that are in files of their own.
func OfUpstream(name string, upstream perigee.Upstream) []Named {
	if u, ok := upstream.(interface{ Secrets() []perigee.Secret }); ok {
		return All("token of upstream "+name, u.Secrets()...)
	}
	return nil
}

// Options are the sources of secrets.
type Options struct {
	// Memory returns secrets that are in memory. It is called each time, so that a token that was
	// just received is known, and not by two goroutines at once.
	Memory func() []Named
	// Files returns secrets that files have. It is called at most once in a second.
	Files func() []Named
	Now   func() time.Time
}

const (
	filePause = time.Second
	// keep is how long a secret that was replaced is still known: it may be in an answer, or in a
	// file that an agent reads.
	keep       = 24 * time.Hour
	maxSecrets = 20_000 // known at once
)

// A Collector has all current secrets, and the secrets of the last 24 hours. Its methods may be
// called concurrently.
type Collector struct {
	opts Options

	mu       sync.Mutex
	known    map[string]*memory // by value
	files    []Named
	read     time.Time // files
	pruned   time.Time
	redactor *redact.Redactor // of known; nil if known has changed
}

// memory is the entry of a secret.
type memory struct {
	name string
	seen time.Time
}

// New returns a Collector.
func New(opts Options) *Collector {
	return &Collector{opts: opts, known: map[string]*memory{}}
}

// Redactor replaces all secrets that are known now. It is the same one until they change.
func (c *Collector) Redactor() *redact.Redactor {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.opts.Now()
	if c.read.IsZero() || now.Sub(c.read) >= filePause || now.Before(c.read) {
		c.files, c.read = c.opts.Files(), now
	}
	c.learn(c.opts.Memory(), now)
	c.learn(c.files, now)
	c.forget(now)
	if c.redactor == nil {
		list := make([]perigee.Secret, 0, len(c.known))
		for value := range c.known {
			list = append(list, perigee.NewSecret(value))
		}
		c.redactor = redact.New(list...)
	}
	return c.redactor
}

// Known returns the secrets that Redactor replaces, by name.
func (c *Collector) Known() []Named {
	c.Redactor()
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]Named, 0, len(c.known))
	for value, m := range c.known {
		list = append(list, Named{m.name, perigee.NewSecret(value)})
	}
	slices.SortFunc(list, func(a, b Named) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Secret.Reveal(), b.Secret.Reveal()))
	})
	return list
}

func (c *Collector) learn(list []Named, now time.Time) {
	for _, s := range list {
		value := s.Secret.Reveal()
		if value == "" {
			continue
		}
		if m := c.known[value]; m != nil {
			m.seen = now
			continue
		}
		c.known[value] = &memory{s.Name, now}
		c.redactor = nil
	}
}

// forget drops secrets that were not seen for a day, and the oldest ones beyond the limit.
func (c *Collector) forget(now time.Time) {
	if now.Sub(c.pruned) >= keep/24 || c.pruned.IsZero() {
		c.pruned = now
		for value, m := range c.known {
			if now.Sub(m.seen) > keep {
				delete(c.known, value)
				c.redactor = nil
			}
		}
	}
	if len(c.known) <= maxSecrets {
		return
	}
	values := make([]string, 0, len(c.known))
	for value := range c.known {
		values = append(values, value)
	}
	slices.SortFunc(values, func(a, b string) int { return c.known[a].seen.Compare(c.known[b].seen) })
	for _, value := range values[:len(values)-maxSecrets*9/10] {
		if c.known[value].seen.Before(now) { // current secrets stay
			delete(c.known, value)
			c.redactor = nil
		}
	}
}

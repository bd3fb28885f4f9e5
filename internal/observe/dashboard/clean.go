package dashboard

import (
	"slices"

	"perigee"
)

// clean returns a call for a page, without secrets.
func (d *Dashboard) clean(c perigee.Call) perigee.Call {
	for _, text := range []*string{&c.Error, &c.Model, &c.ModelAsked, &c.Account, &c.Finish, &c.Client.Name, &c.Client.Version, &c.Client.Key,
		&c.Client.Session, &c.Client.Agent, &c.Client.ParentAgent} {
		*text = d.opts.Redact(*text)
	}
	c.Notes, c.Attempts = d.redactAll(c.Notes), slices.Clone(c.Attempts)
	for i := range c.Attempts {
		a := &c.Attempts[i]
		a.Error, a.Why, a.Account = d.opts.Redact(a.Error), d.opts.Redact(a.Why), d.opts.Redact(a.Account)
	}
	return c
}

// redactAll returns texts without secrets.
func (d *Dashboard) redactAll(texts []string) []string {
	texts = slices.Clone(texts)
	for i := range texts {
		texts[i] = d.opts.Redact(texts[i])
	}
	return texts
}

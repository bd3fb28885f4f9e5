package dashboard

import "perigee"

// clean returns a call for a page, without secrets.
func (d *Dashboard) clean(c perigee.Call) perigee.Call {
	for _, text := range []*string{&c.Error, &c.Model, &c.ModelAsked, &c.Account, &c.Finish, &c.Client.Name, &c.Client.Version, &c.Client.Key,
		&c.Client.Session} {
		*text = d.opts.Redact(*text)
	}
	notes, attempts := c.Notes, c.Attempts
	c.Notes, c.Attempts = make([]string, len(notes)), make([]perigee.Attempt, len(attempts))
	for i, note := range notes {
		c.Notes[i] = d.opts.Redact(note)
	}
	for i, a := range attempts {
		a.Error, a.Why, a.Account = d.opts.Redact(a.Error), d.opts.Redact(a.Why), d.opts.Redact(a.Account)
		c.Attempts[i] = a
	}
	return c
}

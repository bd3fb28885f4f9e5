package httpapi

import (
	"slices"

	"perigee"
)

// quota answers GET /v1/quota: what the accounts have left of the models that the key may ask. Accounts that could not be
// asked are named in the notes.
func (c *call) quota() error {
	control, err := c.control()
	if err != nil {
		return err
	}
	list, err := control.Quota(c.r.Context())
	if err != nil {
		return err
	}
	if c.key != nil {
		list.Rows = slices.DeleteFunc(list.Rows, func(row perigee.QuotaRow) bool { return !c.key.mayAsk(row.Model) })
	}
	for _, problem := range list.Problems {
		c.w.Header().Add("X-Perigee-Notes", headerSafe(problem))
	}
	return writeList(c, list.Rows)
}

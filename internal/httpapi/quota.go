package httpapi

import (
	"context"
	"slices"

	"perigee"
)

type ownerKey struct{}

// ByOwner says whether a Control is asked by the owner, through the socket, and not by a client that may do so all the time.
func ByOwner(ctx context.Context) bool { return ctx.Value(ownerKey{}) != nil }

// owned is the context of a call for a Control.
func (c *call) owned() context.Context {
	if !c.trusted {
		return c.r.Context()
	}
	return context.WithValue(c.r.Context(), ownerKey{}, true)
}

// quota answers GET /v1/quota: what the accounts have left of the models that the key may ask. Accounts that could not be
// asked are named in the notes. The owner, through the socket, gets them whole with ?problems=true: a note is short, and for
// people.
func (c *call) quota() error {
	control, err := c.control()
	if err != nil {
		return err
	}
	if err := knownParameters(c.r.URL.Query(), "problems"); err != nil {
		return err
	}
	list, err := control.Quota(c.owned())
	if err != nil {
		return err
	}
	if c.key != nil {
		list.Rows = slices.DeleteFunc(list.Rows, func(row perigee.QuotaRow) bool { return !c.key.mayAsk(row.Model) })
	}
	if c.trusted && c.r.URL.Query().Get("problems") == "true" {
		return c.writeValue(list)
	}
	for _, problem := range list.Problems {
		c.w.Header().Add("X-Perigee-Notes", headerSafe(problem.String()))
	}
	return writeList(c, list.Rows)
}

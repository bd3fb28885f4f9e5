package oauth

import (
	"context"

	"perigee"
)

// Identify finds out whose refresh token it is. The grant is good for calls, and has a new refresh
// token if the provider replaced it: that is the one to keep.
func (c *Client) Identify(ctx context.Context, refresh perigee.Secret) (email string, grant Grant, err error) {
	if grant, err = c.Refresh(ctx, refresh); err != nil {
		return "", Grant{}, err
	}
	if grant.Refresh.IsZero() {
		grant.Refresh = refresh
	}
	email, err = c.Email(ctx, grant.Access)
	return email, grant, err
}

package oauth

import (
	"context"

	"perigee"
)

// Identify returns the account that a refresh token belongs to. The grant can be used for calls. If
// the provider replaced the refresh token, the grant has the new one, which must be stored.
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

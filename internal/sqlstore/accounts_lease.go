package sqlstore

import (
	"context"

	"perigee"
)

var _ perigee.RefreshLeaser = (*Accounts)(nil)

// LeaseRefresh waits until no other replica refreshes an account, and keeps them from it until release is called. A
// holder that is killed holds nothing any more. Where the database has no replicas release is nil.
func (a *Accounts) LeaseRefresh(ctx context.Context, upstream, email string) (release func(), err error) {
	email = fold(email)
	release, err = a.store.engine.lease(ctx, upstream, email)
	return release, a.store.explain("wait for the turn to refresh "+email+" in", err)
}

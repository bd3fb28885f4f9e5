// Package account is the room of the user's own sign-ins: the list of accounts, the pool that
// leases them to calls, and the tokens. langserver, upstream, daemon and cli may import it. Begin
// with pool.Pool.Acquire to see how a call gets an account, and with roster.Roster to see where
// accounts come from.
//
//	adc     access tokens of Google's application default credentials
//	oauth   sign-in, refreshing of tokens, discovery of projects
//	pool    chooses the account of a call: cooldowns, quota, health, sessions, circuit breaker
//	roster  the accounts of an upstream: added, changed and removed while calls run; account files
package account

package pool

import (
	"slices"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// Kinds that no diagnosis has.
const (
	kindBusy     providererr.Kind = "busy" // the account has as many leases as it may
	kindDisabled providererr.Kind = "disabled"
)

// A cause keeps accounts from being leased.
type cause struct {
	kind   providererr.Kind
	class  perigee.Class // of the error of a call that gets no account
	one    string        // describes one account
	many   string        // follows the number of accounts
	costly bool          // the call, or even the owner, loses an account
	// state is the state of the account until its sign-in changes; empty if the cause ends by
	// itself.
	state  string
	remedy string // a hint for a cause that does not end by itself
}

// causes are ordered by how easy they are to remove, the easiest first.
var causes = []cause{
	{kind: providererr.KindQuota, class: perigee.ClassExhausted, one: "its quota is used up", many: "out of quota"},
	{kind: providererr.KindCredits, class: perigee.ClassExhausted,
		one: "its quota and credits are used up", many: "out of quota and credits"},
	{kind: providererr.KindRate, class: perigee.ClassRateLimited,
		one: "it is over the rate limit", many: "over the rate limit"},
	{kind: providererr.KindUnexplained, class: perigee.ClassRateLimited,
		one: "it was refused without a reason", many: "refused without a reason"},
	{kind: providererr.KindProject, class: perigee.ClassForbidden,
		one: "it may not use its project", many: "without use of their project"},
	{kind: providererr.KindUnauthenticated, class: perigee.ClassUnauthenticated,
		one: "its access token was refused", many: "with a refused access token"},
	{kind: providererr.KindNoToken, class: perigee.ClassUnavailable,
		one: "its access token could not be renewed", many: "without a new access token"},
	{kind: providererr.KindUnavailable, class: perigee.ClassUnavailable,
		one: "the provider keeps answering with errors", many: "that the provider keeps failing"},
	{kind: kindBusy, class: perigee.ClassRateLimited, one: "it is at its concurrency limit", many: "busy"},
	{kind: providererr.KindVerification, class: perigee.ClassVerification,
		many: "to be verified", costly: true, state: perigee.AccountVerification,
		remedy: "find it with `perigee account list`, verify it in a browser that is signed in to it, " +
			"then run `perigee account enable` with its address"},
	{kind: providererr.KindSignedOut, class: perigee.ClassUnauthenticated,
		many: "signed out", costly: true, state: perigee.AccountSignedOut,
		remedy: "run `perigee login`"},
	{kind: providererr.KindMisnamed, class: perigee.ClassUnauthenticated,
		many: "with the token of another account", costly: true, state: perigee.AccountMisnamed,
		remedy: "find it and its owner with `perigee account list`; remove it, or import it under its own name"},
	{kind: kindDisabled, class: perigee.ClassUnauthenticated, many: "disabled", remedy: "run `perigee account enable`"},
	{kind: providererr.KindNotFound, class: perigee.ClassNotFound,
		one: "it does not have this model", many: "without the model", costly: true,
		remedy: "list the models with `perigee models`"},
	{kind: providererr.KindForbidden, class: perigee.ClassForbidden,
		one: "it may not use this model", many: "not permitted to use the model",
		remedy: "list the models with `perigee models`, or add another account with `perigee login`"},
	{kind: providererr.KindBan, class: perigee.ClassForbidden, many: "banned", costly: true, state: perigee.AccountBanned,
		remedy: "add another account with `perigee login`, or use another upstream"},
	{kind: providererr.KindIneligible, costly: true, state: perigee.AccountBanned},
}

// causeEase orders causes: those that are easy to remove come first, and an unknown one is -1.
func causeEase(kind providererr.Kind) int {
	return slices.IndexFunc(causes, func(c cause) bool { return c.kind == kind })
}

// causeOf returns the cause for a kind; the zero cause if there is none.
func causeOf(kind providererr.Kind) cause {
	if i := causeEase(kind); i >= 0 {
		return causes[i]
	}
	return cause{}
}

// kindOfState returns the kind of the cause that has put an account into a state.
func kindOfState(state string) providererr.Kind {
	for _, c := range causes {
		if c.state == state {
			return c.kind
		}
	}
	return providererr.KindSignedOut
}

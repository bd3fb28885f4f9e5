package pool

import (
	"slices"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// Kinds that no diagnosis has.
const (
	KindBusy     providererr.Kind = "busy" // the account has as many leases as it may
	KindDisabled providererr.Kind = "disabled"
)

// A cause keeps accounts from being leased.
type cause struct {
	Kind   providererr.Kind
	Class  perigee.Class // of the error of a call that gets no account
	One    string        // about one account
	Many   string        // behind a number of accounts
	Costly bool          // it costs the call, or even the owner, an account
	State  string        // of the account, until its sign-in changes; empty if the cause ends by itself
	Remedy string        // of a cause that does not
}

// causes are in the order in which they are easy to remove.
var causes = []cause{
	{Kind: providererr.KindQuota, Class: perigee.ClassExhausted, One: "its quota is used up", Many: "out of quota"},
	{Kind: providererr.KindCredits, Class: perigee.ClassExhausted,
		One: "its quota and credits are used up", Many: "out of quota and credits"},
	{Kind: providererr.KindRate, Class: perigee.ClassRateLimited,
		One: "it is over the rate limit", Many: "over the rate limit"},
	{Kind: providererr.KindUnexplained, Class: perigee.ClassRateLimited,
		One: "it was refused without a reason", Many: "refused without a reason"},
	{Kind: providererr.KindProject, Class: perigee.ClassForbidden,
		One: "it may not use its project", Many: "without use of their project"},
	{Kind: providererr.KindUnauthenticated, Class: perigee.ClassUnauthenticated,
		One: "its access token was refused", Many: "with a refused access token"},
	{Kind: providererr.KindNoToken, Class: perigee.ClassUnavailable,
		One: "its access token could not be renewed", Many: "without a new access token"},
	{Kind: providererr.KindUnavailable, Class: perigee.ClassUnavailable,
		One: "the provider keeps answering with errors", Many: "that the provider keeps failing"},
	{Kind: KindBusy, Class: perigee.ClassRateLimited, One: "it is at its concurrency limit", Many: "busy"},
	{Kind: providererr.KindVerification, Class: perigee.ClassVerification,
		Many: "to be verified", Costly: true, State: perigee.AccountVerification,
		Remedy: "find it with `perigee account list`, verify it in a browser that is signed in to it, " +
			"then run `perigee account enable` with its address"},
	{Kind: providererr.KindSignedOut, Class: perigee.ClassUnauthenticated,
		Many: "signed out", Costly: true, State: perigee.AccountSignedOut,
		Remedy: "run `perigee login`"},
	{Kind: providererr.KindMisnamed, Class: perigee.ClassUnauthenticated,
		Many: "with the token of another account", Costly: true, State: perigee.AccountMisnamed,
		Remedy: "find it and its owner with `perigee account list`; remove it, or import it under its own name"},
	{Kind: KindDisabled, Class: perigee.ClassUnauthenticated, Many: "disabled", Remedy: "run `perigee account enable`"},
	{Kind: providererr.KindNotFound, Class: perigee.ClassNotFound,
		One: "it does not have this model", Many: "without the model", Costly: true,
		Remedy: "list the models with `perigee models`"},
	{Kind: providererr.KindForbidden, Class: perigee.ClassForbidden,
		One: "it may not use this model", Many: "not permitted to use the model",
		Remedy: "list the models with `perigee models`, or add another account with `perigee login`"},
	{Kind: providererr.KindBan, Class: perigee.ClassForbidden, Many: "banned", Costly: true, State: perigee.AccountBanned,
		Remedy: "add another account with `perigee login`, or use another upstream"},
	{Kind: providererr.KindIneligible, Costly: true, State: perigee.AccountBanned},
}

// causeEase orders causes: those that are easy to remove come first, and an unknown one is -1.
func causeEase(kind providererr.Kind) int {
	return slices.IndexFunc(causes, func(c cause) bool { return c.Kind == kind })
}

// causeOf returns the cause for a kind; the zero Cause if there is none.
func causeOf(kind providererr.Kind) cause {
	if i := causeEase(kind); i >= 0 {
		return causes[i]
	}
	return cause{}
}

// kindOfState returns the kind of the cause that has put an account into a state.
func kindOfState(state string) providererr.Kind {
	for _, c := range causes {
		if c.State == state {
			return c.Kind
		}
	}
	return providererr.KindSignedOut
}

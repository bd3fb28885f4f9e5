package pages

import (
	"perigee"
	"perigee/internal/lib/lazyregexp"
)

// An Advice is the meaning of an error, and what to do about it.
type Advice struct {
	Meaning, Next string
	Command       string // that helps; empty if none does
	Page          string // of the dashboard that helps; empty if none does
	Link          string // the name of the page
}

// plainModel matches names of models that need not be quoted in a shell.
var plainModel = lazyregexp.New(`^[A-Za-z0-9._:/@-]+$`)

var advices = map[perigee.Class]Advice{
	perigee.ClassInvalid: {"The provider or perigee does not accept the request. Sending it again does not help.",
		"Compare the request with what the error names. Shrinking finds the part that causes it.", "perigee trace shrink", "", ""},
	perigee.ClassUnauthenticated: {"The provider did not accept perigee's sign-in or API key.",
		"Sign in again, or check the key of the upstream.", "perigee login", "/dashboard/accounts", "Accounts"},
	perigee.ClassForbidden: {"The key, the configuration or the provider excludes the request.",
		"Look at the models that the key may use, and at what the provider says.", "", "/dashboard/config", "Configuration"},
	perigee.ClassNotFound: {"No upstream has what the request names.",
		"Choose a name from the list of models, or add an alias.", "perigee models", "/dashboard/models", "Models"},
	perigee.ClassExhausted: {"The quota of every usable account is used up.",
		"Wait for the reset, use another model, or add an account.", "perigee quota", "/dashboard/accounts", "Accounts"},
	perigee.ClassRateLimited: {"The provider, or a limit of the key, allows no more requests at this moment.",
		"The client can try again after the time in Retry-After.", "", "/dashboard/accounts", "Accounts"},
	perigee.ClassCapacity: {"The provider is overloaded, or perigee has reached limits.memory or limits.concurrency.",
		"Try again. A route with a second upstream makes perigee fail over by itself.", "", "/dashboard/models", "Models and routes"},
	perigee.ClassIdentity: {"The provider refused the program that asks, not the request.",
		"Update perigee, or use the official API with a key.", "perigee version", "/dashboard/models", "Models and routes"},
	perigee.ClassVerification: {"The provider wants the owner of the account to verify something.",
		"Sign in to the provider in a browser with this account, then enable the account again.", "perigee account list", "/dashboard/accounts", "Accounts"},
	perigee.ClassCanceled: {"The client closed the connection before the answer was complete.",
		"Nothing to do, unless the client has a time-out that is too short.", "", "", ""},
	perigee.ClassUnavailable: {"The provider could not be reached, or did not answer in time.",
		"Check the connection. perigee doctor tests every upstream.", "perigee doctor", "/dashboard/system", "System"},
	perigee.ClassUnimplemented: {"The upstream has no such ability.",
		"Use another upstream for this, or another dialect.", "", "/dashboard/models", "Models and routes"},
	perigee.ClassInternal: {"perigee failed.",
		"Please report it with a bundle, which has no secrets in it.", "perigee trace bundle", "/dashboard/system", "System"},
}

var cutOffAdvice = Advice{"The answer had begun and did not reach its end: the provider or the connection to it failed in the middle.",
	"Ask again. If it happens often, perigee doctor tests the upstreams.", "perigee doctor", "", ""}

// withoutAccount has the advice on calls without an account: they used an API key, or were refused
// before an account was chosen.
var withoutAccount = map[perigee.Class]Advice{
	perigee.ClassUnauthenticated: {"The provider did not accept perigee's API key or sign-in.",
		"Check the keys of the upstream, or sign in again.", "perigee config show", "/dashboard/config", "Configuration"},
	perigee.ClassExhausted: {"The quota of the API keys or accounts of the upstream, or that of the client's key, is used up.",
		"Wait for the reset, use another model, or add an API key or an account.", "perigee explain", "/dashboard/models", "Models and routes"},
	perigee.ClassRateLimited: {"The provider, or a limit of the key, allows no more requests at this moment.",
		"The client can try again after the time in Retry-After.", "perigee explain", "/dashboard/models", "Models and routes"},
}

var forbiddenAccount = Advice{"The provider excludes the request or the account.",
	"Look at the state of the account, and at what the provider says.", "perigee account list", "/dashboard/accounts", "Accounts"}

// AdviceOn returns the advice on how a call ended. Commands that are about a call or a model name
// it. shrinkable is set if the request can be shrunk.
func AdviceOn(c *perigee.Call, shrinkable bool) *Advice {
	a, ok := advices[c.Class]
	without, differs := withoutAccount[c.Class]
	switch {
	case c.Outcome == perigee.OutcomeCutOff:
		a = cutOffAdvice
	case !ok:
		a = advices[perigee.ClassInternal]
	case c.Account == "" && differs:
		a = without
	case c.Account != "" && c.Class == perigee.ClassForbidden:
		a = forbiddenAccount
	case c.Class == perigee.ClassInvalid && !shrinkable:
		a.Next, a.Command = "Compare the request with what the error names.", ""
	}
	switch {
	case a.Command == "perigee explain" && !plainModel().MatchString(c.ModelAsked):
		a.Command = ""
	case a.Command == "perigee explain":
		a.Command += " " + c.ModelAsked
	}
	if a.Command == "perigee trace shrink" || a.Command == "perigee trace bundle" {
		a.Command += " " + c.ID
	}
	return &a
}

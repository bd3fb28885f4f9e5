package accounttests

import (
	"net/http"
	"slices"
	"time"

	"perigee"
	"perigee/internal/simulator"
)

// The scope of a fault, and so what may be asked instead.
const (
	scopeAccount = "account" // another account, or the same one later
	scopeHost    = "host"    // the same account at another endpoint
	scopeAnswer  = "answer"  // nothing: the same again, or nothing at all
)

// A fault is one failure of a provider, and its expected consequences.
type fault struct {
	name      string
	fault     simulator.Fault
	scope     string
	needs     int           // strikes in a row before it counts
	rests     time.Duration // an account must not be asked for so long
	announced bool          // because the provider said so
	out       time.Duration // and need not be for so long
	brief     bool          // it is worth waiting for
	burns     bool          // two accounts at most are spent on it
	moves     bool          // one other account is asked, wherever the trouble comes from
	again     bool          // and where there is none the same one, once more
	alike     bool          // that another account met the same before counts, too
	hangs     bool
	class     []perigee.Class
	status    []int
	state     string // of the account from then on
	noToken   bool   // it cannot happen to the sign-in server
	// tokenState is the state when it is the sign-in server that says so.
	tokenState string
}

// allows reports whether a call may fail like this. One that had begun is told inside the stream.
func (k fault) allows(r *reply, token bool) bool {
	if r.status == http.StatusOK {
		return k.scope == scopeAnswer && r.stream && k.noToken
	}
	class := perigee.Class(r.header.Get("X-Perigee-Class"))
	if token {
		return slices.Contains(k.class, class) || class == perigee.ClassUnavailable || k.tokenState != "" && class == perigee.ClassUnauthenticated
	}
	return slices.Contains(k.class, class) && slices.Contains(k.status, r.status)
}

// A moment is when and for which accounts something goes wrong.
type moment struct {
	name       string
	when       simulator.When
	oneAccount bool
	oneHost    bool
	token      bool // while an access token is fetched
	later      bool // after a good call, when all tokens have run out
	sticky     bool
}

var moments = []moment{
	{name: "the first request", when: simulator.When{Call: &simulator.CallRange{From: 1, To: 1}}, sticky: true},
	{name: "the second request", when: simulator.When{Call: &simulator.CallRange{From: 2, To: 2}}},
	{name: "every second request", when: simulator.When{Every: 2}},
	{name: "one account", oneAccount: true},
	{name: "one endpoint", oneHost: true, sticky: true},
	{name: "all", when: simulator.When{}},
	{name: "the first token", token: true, when: simulator.When{Call: &simulator.CallRange{From: 1, To: 1}}, sticky: true},
	{name: "every refresh", token: true, later: true},
}

func classes(list ...perigee.Class) []perigee.Class { return list }

func delayed(do string, d time.Duration) simulator.Fault {
	return simulator.Fault{Do: do, Delay: simulator.Duration(d)}
}

func after(do string, chunks int) simulator.Fault {
	return simulator.Fault{Do: do, AfterChunks: chunks}
}

func host(do string, class perigee.Class, status ...int) fault {
	down := class == perigee.ClassUnavailable
	return fault{name: do, fault: simulator.Fault{Do: do}, scope: scopeHost, moves: down, again: down, class: classes(class), status: status}
}

const (
	soon     = 20 * time.Millisecond
	window   = time.Hour + 16*time.Minute
	lookOver = 11 * time.Minute // longer than accounts rest that do not have something
)

var troubles = []fault{
	{name: "quota exhausted", fault: delayed("quota_exhausted", window), scope: scopeAccount, needs: 1, rests: window, announced: true, out: window + time.Second,
		class: classes(perigee.ClassExhausted), status: []int{429}},
	{name: "rate limit for a moment", fault: delayed("rate_limit", soon), scope: scopeAccount, needs: 1, rests: soon, brief: true, out: 2 * time.Second,
		class: classes(perigee.ClassRateLimited), status: []int{429}},
	{name: "rate limit for a minute", fault: delayed("rate_limit", time.Minute), scope: scopeAccount, needs: 1, rests: time.Minute, announced: true, out: 61 * time.Second,
		class: classes(perigee.ClassRateLimited), status: []int{429}},
	{name: "rate limit for ten minutes", fault: delayed("rate_limit", 10*time.Minute), scope: scopeAccount, needs: 1, rests: 10 * time.Minute, announced: true, out: 10*time.Minute + time.Second,
		class: classes(perigee.ClassExhausted), status: []int{429}},
	{name: "insufficient credits", fault: simulator.Fault{Do: "insufficient_credits"}, scope: scopeAccount, needs: 1, rests: time.Minute, out: 31 * time.Minute,
		class: classes(perigee.ClassExhausted), status: []int{429}},
	{name: "bare 429", fault: simulator.Fault{Do: "bare_429"}, scope: scopeAccount, needs: 1, out: 20 * time.Second, burns: true, alike: true,
		class: classes(perigee.ClassRateLimited, perigee.ClassIdentity), status: []int{429, 403}},

	host("capacity", perigee.ClassCapacity, 503, 529),
	host("capacity_429", perigee.ClassCapacity, 503, 529),
	host("overloaded_529", perigee.ClassCapacity, 503, 529),
	host("unavailable_503", perigee.ClassUnavailable, 503),
	host("internal_500", perigee.ClassUnavailable, 500),
	host("deadline_504", perigee.ClassUnavailable, 504),
	host("bad_gateway_html", perigee.ClassUnavailable, 502),
	host("array_error", perigee.ClassUnavailable, 500),
	host("reset", perigee.ClassUnavailable, 503),
	{name: "hang", fault: simulator.Fault{Do: "hang"}, scope: scopeHost, moves: true, again: true, hangs: true, class: classes(perigee.ClassUnavailable), status: []int{504}},
	{name: "hang after headers", fault: simulator.Fault{Do: "hang_after_headers"}, scope: scopeHost, moves: true, again: true, hangs: true, class: classes(perigee.ClassUnavailable), status: []int{504}},
	{name: "error instead of the first chunk", fault: after("error_mid_stream", 0), scope: scopeHost, moves: true, again: true, noToken: true, class: classes(perigee.ClassUnavailable), status: []int{500, 503}},
	{name: "damaged first chunk", fault: after("invalid_json_chunk", 0), scope: scopeHost, moves: true, again: true, noToken: true, class: classes(perigee.ClassUnavailable), status: []int{502, 503}},

	{name: "forbidden", fault: simulator.Fault{Do: "forbidden"}, scope: scopeHost, moves: true,
		class: classes(perigee.ClassForbidden), status: []int{403}},
	{name: "service disabled", fault: simulator.Fault{Do: "service_disabled"}, scope: scopeAccount, needs: 1, rests: time.Minute, out: lookOver,
		class: classes(perigee.ClassForbidden), status: []int{403}},
	{name: "validation required", fault: simulator.Fault{Do: "validation_required"}, scope: scopeAccount, needs: 1, burns: true,
		class: classes(perigee.ClassVerification), status: []int{403}, state: perigee.AccountVerification, tokenState: perigee.AccountVerification},
	{name: "banned", fault: simulator.Fault{Do: "banned"}, scope: scopeAccount, needs: 1, burns: true,
		class: classes(perigee.ClassForbidden), status: []int{403}, state: perigee.AccountBanned, tokenState: perigee.AccountBanned},
	{name: "unauthorized", fault: simulator.Fault{Do: "unauthorized"}, scope: scopeAccount, needs: 2, rests: time.Minute, out: 61 * time.Second,
		class: classes(perigee.ClassUnauthenticated), status: []int{403}},
	{name: "invalid grant", fault: simulator.Fault{Do: "invalid_grant"}, scope: scopeAccount, needs: 2, rests: time.Minute, out: 61 * time.Second,
		class: classes(perigee.ClassUnauthenticated), status: []int{403}, tokenState: perigee.AccountSignedOut},
	{name: "not found", fault: simulator.Fault{Do: "not_found"}, scope: scopeAccount, needs: 2, rests: time.Minute, out: lookOver, burns: true,
		class: classes(perigee.ClassNotFound), status: []int{404}},
	{name: "version too old", fault: simulator.Fault{Do: "version_too_old"}, scope: scopeAccount, needs: 2, rests: time.Minute, out: lookOver, burns: true,
		class: classes(perigee.ClassNotFound), status: []int{404}},

	{name: "version too old, in words", fault: simulator.Fault{Do: "error_in_200"}, scope: scopeAnswer, needs: 1, noToken: true,
		class: classes(perigee.ClassIdentity), status: []int{403}},
	{name: "empty answer", fault: simulator.Fault{Do: "empty_200"}, scope: scopeAnswer, needs: 2, class: classes(perigee.ClassUnavailable), status: []int{503}},
	{name: "no finish", fault: simulator.Fault{Do: "no_finish"}, scope: scopeAnswer, needs: 1, noToken: true, class: classes(perigee.ClassUnavailable), status: []int{503}},
	{name: "error after a chunk", fault: after("error_mid_stream", 1), scope: scopeAnswer, needs: 1, noToken: true, class: classes(perigee.ClassUnavailable), status: []int{500, 503}},
	{name: "damaged second chunk", fault: after("invalid_json_chunk", 1), scope: scopeAnswer, needs: 1, noToken: true, class: classes(perigee.ClassUnavailable), status: []int{502, 503}},
	{name: "reset after a chunk", fault: after("reset", 1), scope: scopeAnswer, needs: 1, noToken: true, class: classes(perigee.ClassUnavailable), status: []int{503}},
}

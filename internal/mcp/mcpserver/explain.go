package mcpserver

import (
	"context"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"perigee"
	"perigee/internal/lib/lazyregexp"
)

type explainResult struct {
	Found       bool          `json:"found"`
	Call        string        `json:"call,omitempty"`
	Time        string        `json:"time,omitempty"`
	Class       perigee.Class `json:"class,omitempty"`
	Message     string        `json:"message,omitempty"`
	Upstream    string        `json:"upstream,omitempty"`
	Explanation string        `json:"explanation,omitempty"`
	Next        string        `json:"next,omitempty"`
}

func explainTool() *tool {
	t := newTool("explain_last_error", "Explain the last error",
		"Explains the last call that has failed in perigee: what happened, why, and what to do next.",
		arguments(),
		object(
			prop("found", boolean, "Whether a call has failed."),
			prop("call?", text, "The id of the call."),
			prop("time?", text, "When it was made (RFC 3339)."),
			prop("class?", text, "The kind of the error."),
			prop("message?", text, "What the call was answered."),
			prop("upstream?", text, "The upstream that was asked."),
			prop("explanation?", text, "What that means."),
			prop("next?", text, "What to do."),
		))
	t.run = func(ctx context.Context, c *call) (*mcp.CallToolResult, error) {
		if _, err := decode[struct{}](c); err != nil {
			return nil, err
		}
		trace, found, err := c.server.o.Backend.LastFailure(ctx, c.caller.Key, c.caller.Trusted)
		if err != nil {
			return nil, err
		}
		if !found {
			return structured(explainResult{})
		}
		if !c.caller.Trusted {
			trace.Error = forClient(trace)
		}
		return structured(explain(trace))
	}
	return t
}

// local matches addresses, paths and URLs in an error. The record of a call has no version of the
// message without them.
var local = lazyregexp.New(`(?i)\b(?:dial|read|write|lookup|listen) (?:tcp|udp|unix|ip)?|\d+\.\d+\.\d+\.\d+|\[[0-9a-f:.%]*:[0-9a-f:.%]*\]|://|(?:^|[\s"'(=])(?:~?/|[a-z]:\\|\\\\)\S`)

// forClient returns the error of a call for a client that may not see details of this machine. The
// provider's message about the request is not such a detail.
func forClient(t perigee.Trace) string {
	if t.Class != perigee.ClassUnavailable && t.Class != perigee.ClassInternal || !local().MatchString(t.Error) {
		return t.Error
	}
	return "the call failed; perigee's log has the reason"
}

func explain(t perigee.Trace) explainResult {
	a, ok := advices[t.Class]
	switch {
	case t.Outcome == perigee.OutcomeCutOff:
		a = cutOff
	case !ok:
		a = advices[perigee.ClassInternal]
	}
	return explainResult{
		Found: true, Call: t.ID, Time: t.Time.UTC().Format(time.RFC3339Nano), Class: t.Class, Message: t.Error, Upstream: t.Upstream,
		Explanation: a.explanation, Next: strings.ReplaceAll(a.next, "CALL", t.ID),
	}
}

// An advice explains an error class, and has the next step, in which CALL is the ID of the call.
type advice struct{ explanation, next string }

var cutOff = advice{
	"The answer had begun and did not reach its end: the connection to the provider or the provider itself failed in the middle.",
	"Ask again. If it happens often, look at the call with `perigee trace show CALL`.",
}

var advices = map[perigee.Class]advice{
	perigee.ClassInvalid: {
		"The request is not one that the provider or perigee accepts, so sending it again does not help.",
		"Change what the message names. `perigee trace show CALL` has the request as it was sent.",
	},
	perigee.ClassUnauthenticated: {
		"The provider did not accept perigee's sign-in: there is no account, or its sign-in was withdrawn or has expired.",
		"Run `perigee account list`, then `perigee login` for the account that is not usable.",
	},
	perigee.ClassForbidden: {
		"The request is not allowed: the key, the configuration or the provider excludes it.",
		"Use a model that list_models shows, or have the administrator change what the key allows.",
	},
	perigee.ClassNotFound: {
		"The model, the conversation or the object that the request names does not exist there.",
		"Choose a name that list_models shows; leave out the conversation to begin a new one.",
	},
	perigee.ClassExhausted: {
		"The quota of the API keys or accounts is used up.",
		"The tool quota says when it is reset. Wait until then, use another model, or add an account with `perigee login`.",
	},
	perigee.ClassRateLimited: {
		"Too many requests were made in a short time. The quota itself is not used up.",
		"Wait for a moment, ask again, and send fewer requests at once.",
	},
	perigee.ClassCapacity: {
		"The provider, or perigee itself, is overloaded right now.",
		"Ask again in a minute, or use another model.",
	},
	perigee.ClassIdentity: {
		"The provider refuses requests that come from this program or with this kind of account.",
		"Use another upstream or account. perigee does not imitate other programs.",
	},
	perigee.ClassVerification: {
		"The provider wants the owner of the account to confirm it in a browser.",
		"Open the address in the message, confirm the account there, and ask again.",
	},
	perigee.ClassCanceled: {
		"The client closed the connection or cancelled the call before the answer was complete.",
		"Nothing has to be repaired. If the client gave up too early, give it a longer time limit.",
	},
	perigee.ClassUnavailable: {
		"The provider, the language server or the IDE could not be reached, or did not answer in time.",
		"Ask again. If it stays that way, run `perigee doctor`.",
	},
	perigee.ClassUnimplemented: {
		"What the request needs is not available on the upstream that was asked.",
		"Leave that out of the request, or use a model of another upstream.",
	},
	perigee.ClassInternal: {
		"Something unexpected has happened in perigee or at the provider.",
		"Ask again. If it happens again, report it with the id of the call.",
	},
}

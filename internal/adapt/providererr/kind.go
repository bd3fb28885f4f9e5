package providererr

import "perigee"

// A Kind is the exact cause of an error. Clients get the perigee.Class, which is coarser.
type Kind string

// Causes in the account, the client, the model or the provider. No rule leads to KindMisnamed,
// which is the result of comparing addresses at sign-in, or to KindNoToken, which AtSignIn and the
// pool use. After KindCredits, calls must no longer offer credits. KindNotFound may also mean that
// the client is too old for the model.
const (
	KindQuota           Kind = "quota"           // a window of the account is used up
	KindCredits         Kind = "credits"         // the windows are used up, with too few credits
	KindRate            Kind = "rate_limit"      // too many calls in a short time
	KindUnexplained     Kind = "unexplained"     // a 429 without a reason; see WithQuotaLeft
	KindCapacity        Kind = "capacity"        // the model is overloaded for everybody
	KindVersion         Kind = "version"         // the client version that we name is too old
	KindIdentity        Kind = "identity"        // the provider does not accept this client
	KindOAuthClient     Kind = "oauth_client"    // the sign-in server refuses the OAuth client
	KindVerification    Kind = "verification"    // the owner has to verify the account
	KindBan             Kind = "ban"             // the account was disabled
	KindIneligible      Kind = "ineligible"      // the account never had the service
	KindProject         Kind = "project"         // the account's project may not be used
	KindUnauthenticated Kind = "unauthenticated" // the access token is not accepted: get a new one
	KindSignedOut       Kind = "signed_out"      // the refresh token is not accepted: sign in again
	KindMisnamed        Kind = "misnamed"        // the refresh token belongs to another account
	KindNoToken         Kind = "no_token"        // there is no access token at the moment
	KindForbidden       Kind = "forbidden"       // refused without a reason, often by one host
	KindLocation        Kind = "location"        // the address that we call from is not served
	KindNotFound        Kind = "not_found"       // the model or the project does not exist
	KindEndpoint        Kind = "endpoint"        // the host does not have the method
	KindUnimplemented   Kind = "unimplemented"   // the host has the method and does not offer it
	KindUnavailable     Kind = "unavailable"     // the provider is temporarily unavailable
	KindOther           Kind = "other"           // an answer that makes no sense
)

// Causes in the request.
const (
	KindToolPairing      Kind = "tool_pairing"      // calls and results do not match
	KindThinkingOrder    Kind = "thinking_order"    // a turn does not start with its thinking
	KindThinkingDisabled Kind = "thinking_disabled" // thinking is off, but the history has some
	KindBadSignature     Kind = "bad_signature"     // a missing, invalid or foreign signature
	KindThinkingBudget   Kind = "thinking_budget"   // a budget, level or output limit is invalid
	KindSchemaKeyword    Kind = "schema_keyword"    // the schema of a tool has an invalid keyword
	KindUnknownField     Kind = "unknown_field"     // a field elsewhere is unknown
	KindEmptyContent     Kind = "empty_content"     // a message, or the conversation, is empty
	KindPrefill          Kind = "prefill"           // the last message is the assistant's
	KindPromptTooLong    Kind = "prompt_too_long"   // more tokens than the model reads
	KindTooLarge         Kind = "too_large"         // more bytes than the provider takes
	KindBadRequest       Kind = "bad_request"       // anything else
)

// A Scope is the part that an error affects: it gets a cooldown, and determines the alternatives.
type Scope string

// The scopes. Nothing wider than the scope gets a cooldown: an account that is out of quota for one
// family of models still answers for other families. After ScopeProvider, only the answer to
// another account shows whether the account is the cause.
const (
	ScopeNone          Scope = "none"           // every account and host would answer the same
	ScopeRequest       Scope = "request"        // this request, wherever it goes
	ScopeHost          Scope = "host"           // this endpoint
	ScopeProvider      Scope = "provider"       // all endpoints, for this account
	ScopeNetwork       Scope = "network"        // nothing was reached; not an account's fault
	ScopeModel         Scope = "model"          // this model, for every account
	ScopeAccount       Scope = "account"        // this account, for every model
	ScopeAccountFamily Scope = "account+family" // this account, for this family of models
	ScopeAccountModel  Scope = "account+model"  // this account, for this model
)

// A meaning has the consequences of a Kind. In hint, {wait} becomes the time to wait, or patience
// where that is unknown, and {link} the address where the account is verified.
type meaning struct {
	class    perigee.Class
	scope    Scope
	nextHost bool
	passes   bool   // it ends by itself, so a delay means something
	message  string // the beginning of the message; the provider's own words follow
	hint     string
	patience string // default: wait a little
}

const (
	newConversation = "start a new conversation"
	untilQuota      = "wait until `perigee quota` shows some"
	seeTrace        = "`perigee trace show` lists what perigee changed"
)

var meanings = map[Kind]meaning{
	KindQuota: {class: perigee.ClassExhausted, scope: ScopeAccountFamily, passes: true,
		message: "the account has used up its quota for this model",
		hint:    "{wait}, or add another account with `perigee login`", patience: untilQuota},
	KindCredits: {class: perigee.ClassExhausted, scope: ScopeAccountFamily, passes: true,
		message: "the account has used up its quota and has too few credits to go on",
		hint:    "{wait}, or add another account with `perigee login`", patience: untilQuota},
	KindRate: {class: perigee.ClassRateLimited, scope: ScopeAccountFamily, passes: true,
		message: "the account made too many calls in a short time",
		hint:    "{wait} and try again"},
	KindUnexplained: {class: perigee.ClassRateLimited, scope: ScopeAccountFamily, passes: true,
		message: "the provider rejects calls for now and does not say why",
		hint:    "{wait} and try again; if `perigee quota` shows that there is some left, the provider may reject the client that the system prompt names"},
	// Every account would get the same answer; another host may have capacity.
	KindCapacity: {class: perigee.ClassCapacity, scope: ScopeModel, nextHost: true, passes: true,
		message: "the provider has no capacity for this model at the moment",
		hint:    "{wait} and try again, or use another model"},
	KindVersion: {class: perigee.ClassIdentity, scope: ScopeNone,
		message: "the provider no longer accepts this client version",
		hint:    "set client_version of this upstream in the configuration to the current version of Antigravity"},
	KindIdentity: {class: perigee.ClassIdentity, scope: ScopeNone,
		message: "the provider rejects this client, regardless of the account's quota",
		hint:    "use this client with another upstream; an API key of the official Gemini API is the recommended one"},
	KindOAuthClient: {class: perigee.ClassIdentity, scope: ScopeNone,
		message: "the sign-in server rejects the OAuth client of this upstream",
		hint:    "check oauth of this upstream in the configuration: client_id, client_secret and redirect_port; an account that another program signed in may need `perigee login`"},
	KindVerification: {class: perigee.ClassVerification, scope: ScopeAccount,
		message: "the provider requires the owner of this account to verify it",
		hint:    "open {link} in a browser that is signed in to this account and no other, then run `perigee account enable` with its address"},
	KindBan: {class: perigee.ClassForbidden, scope: ScopeAccount,
		message: "the provider has disabled this account",
		hint:    "sign in to Antigravity itself with this account to see how to appeal, and use another account or upstream meanwhile; `perigee account enable` enables it again"},
	KindIneligible: {class: perigee.ClassForbidden, scope: ScopeAccount,
		message: "this account is not entitled to the service",
		hint:    "check in Antigravity itself why, or use another account"},
	// The project comes with the account, but other pools of the account may use another one.
	KindProject: {class: perigee.ClassForbidden, scope: ScopeAccountFamily,
		message: "the account may not use its Google Cloud project for this",
		hint:    "run `perigee login` to discover the project again, or enable the Gemini for Google Cloud API in the project"},
	KindUnauthenticated: {class: perigee.ClassUnauthenticated, scope: ScopeAccount,
		message: "the provider does not accept the access token of this account",
		hint:    "try again; if the error persists, run `perigee login`"},
	KindSignedOut: {class: perigee.ClassUnauthenticated, scope: ScopeAccount,
		message: "the sign-in of this account is no longer valid",
		hint:    "run `perigee login`"},
	KindNoToken: {class: perigee.ClassUnavailable, scope: ScopeAccount,
		message: "the sign-in server failed and issued no access token",
		hint:    "{wait} and try again; if the error persists, check oauth.token_url of this upstream in the configuration, and whether a proxy interferes"},
	KindForbidden: {class: perigee.ClassForbidden, scope: ScopeHost, nextHost: true,
		message: "the provider does not permit the call",
		hint:    "`perigee models` lists the available models, or use another account"},
	KindLocation: {class: perigee.ClassForbidden, scope: ScopeNone,
		message: "the provider does not serve the location of this call",
		hint:    "check the network (with a VPN, the location of its exit counts), or use another model"},
	KindNotFound: {class: perigee.ClassNotFound, scope: ScopeAccountModel, nextHost: true,
		message: "the provider does not know the model or the project",
		hint:    "`perigee models` lists the available models; a new model may need a newer client_version in the configuration"},
	KindEndpoint: {class: perigee.ClassUnavailable, scope: ScopeHost, nextHost: true,
		message: "this endpoint does not know the method",
		hint:    "check endpoints of this upstream in the configuration"},
	KindUnimplemented: {class: perigee.ClassUnimplemented, scope: ScopeHost, nextHost: true,
		message: "the provider does not offer this",
		hint:    "use another upstream for it"},
	KindUnavailable: {class: perigee.ClassUnavailable, scope: ScopeHost, nextHost: true, passes: true,
		message: "the provider is unavailable",
		hint:    "{wait} and try again, or use another upstream"},
	KindOther: {class: perigee.ClassUnavailable, scope: ScopeHost, nextHost: true, passes: true,
		message: "the provider sent an invalid answer",
		hint:    "try again; if the error persists, check endpoints of this upstream in the configuration, and whether a proxy interferes"},

	KindToolPairing: invalid("the tool calls and tool results of the conversation do not match",
		"send a result for each tool call, or "+newConversation),
	KindThinkingOrder: invalid("a turn of the conversation lacks the thinking that it has to start with",
		newConversation+", or turn thinking off"),
	KindThinkingDisabled: invalid("thinking is turned off, but the conversation has some in it",
		"turn thinking on, or "+newConversation),
	KindBadSignature: invalid("the model does not accept the thinking in the conversation as its own",
		newConversation+", or remove the thinking of earlier turns"),
	KindThinkingBudget: invalid("the model does not accept this thinking budget, thinking level or output limit",
		"change the thinking settings or the output limit of the client"),
	KindSchemaKeyword: invalid("the provider cannot read the schema of a tool",
		"simplify the schema that it names, or remove the tool"),
	KindUnknownField: invalid("the request has a field that the provider does not know",
		"remove the field; "+seeTrace),
	KindEmptyContent: invalid("the conversation has a message without content",
		"remove the empty message, or "+newConversation),
	KindPrefill: invalid("the conversation ends with a message of the assistant, which this model does not continue",
		"end it with a message of the user"),
	// Clients look for the first four words to compact the conversation by themselves.
	KindPromptTooLong: invalid("prompt is too long for the model",
		"compact the conversation, or "+newConversation),
	KindTooLarge: invalid("the request is too large for the provider",
		"send fewer or smaller images and files"),
	KindBadRequest: invalid("the provider does not accept the request",
		seeTrace),
}

func invalid(message, hint string) meaning {
	return meaning{class: perigee.ClassInvalid, scope: ScopeRequest, message: message, hint: hint}
}

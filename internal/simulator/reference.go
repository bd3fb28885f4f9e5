package simulator

// The tables of the keys of scripts and faults. GET / and docs/simulator.md are generated from
// them, and a test compares them with the types.

// An entry is a word and its meaning.
type entry struct{ name, about string }

// scriptKeys are the keys of a script, apart from the keys of a fault.
var scriptKeys = []entry{
	{"accounts", "the accounts that can sign in; they replace the default ones"},
	{"accounts[].email", "the email address"},
	{"accounts[].refresh_token", "valid from the start; without one, the account must sign in"},
	{"accounts[].project", "the managed project (sim-project-N)"},
	{"accounts[].own_projects", "additional projects that it may use"},
	{"accounts[].tier", "free-tier (default), standard-tier, g1-pro-tier or g1-ultra-tier"},
	{"accounts[].not_onboarded", "there is no project until onboardUser is called"},
	{"accounts[].onboard_polls", "how many times onboardUser answers that it is not done (1)"},
	{"accounts[].banned", "calls fail with 403 ACCOUNT_DISABLED"},
	{"accounts[].needs_validation", "calls fail with 403 VALIDATION_REQUIRED"},
	{"accounts[].credits", "credits that pay for requests beyond the quota"},
	{"accounts[].project_as_object", "loadCodeAssist returns the project as an object"},
	{"accounts[].models", "the available models (all)"},
	{"accounts[].limits.five_hour", "requests per five hours and quota group (10000); negative: no limit"},
	{"accounts[].limits.weekly", "requests per week and quota group (100000); negative: no limit"},
	{"accounts[].limits.per_minute", "requests per minute and quota group (no limit)"},
	{"keys", "API keys of the official API and of the APIs of other providers, each a string or a mapping; if empty, every key is accepted"},
	{"keys[].name", "the name in faults and in the list of calls (the key itself)"},
	{"keys[].key", "the key that clients send"},
	{"keys[].organization", "the owner, for encrypted reasoning and stored responses (the name)"},
	{"keys[].limits.per_minute", "requests per minute and model (no limit)"},
	{"keys[].limits.per_day", "requests per day and model (no limit)"},
	{"models.ID.min_version", "older clients get 404"},
	{"models.ID.accounts", "the email addresses of the accounts that have the model (all)"},
	{"switches", "behaviour of the provider about which reports differ"},
	{"rotate_refresh_tokens", "each refresh returns a new refresh token; the old one can be used once more"},
	{"oauth_errors", "format of errors of /token: oauth (default) or google"},
	{"min_version", "the oldest client version that is accepted"},
	{"faults", "the failures to inject"},
}

// faultKeys are the keys of a fault.
var faultKeys = []entry{
	{"do", "the fault"},
	{"when.host", "part of the Host header"},
	{"when.path", "part of the path"},
	{"when.method", "the word after the colon (generateContent), or the HTTP method; an exact match"},
	{"when.account", "part of the email address of the account, or of the name or the value of the API key"},
	{"when.model", "part of the model ID"},
	{"when.call", `the number of the call among those that match the other conditions: 3, "2-4" or "5-"`},
	{"when.every", "every n-th call among them"},
	{"times", "how often the fault occurs (every time)"},
	{"delay", "the retry delay of a 429, the time between chunks of slow, the duration of a hang"},
	{"after_chunks", "the number of chunks before the fault, for faults in a stream"},
	{"message", "the error message, instead of the usual one"},
}

// fixedLimits cannot be changed.
var fixedLimits = []entry{
	{"64 MiB", "maximum size of a body"},
	{"100", "maximum number of requests in one batchEmbedContents"},
	{"3072", "maximum number of dimensions of an embedding"},
	{"8", "maximum number of candidates of the official API; the private gateway returns one"},
	{"5", "maximum number of stop sequences of the official API"},
	{"3599 s", "lifetime of an access token"},
	{"10 min", "lifetime of an authorization code"},
	{"1000", "number of calls that GET /simulator/calls lists"},
}

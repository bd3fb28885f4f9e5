package simulator

// The tables of what a script and a fault may say. GET / and docs/simulator.md are made from them, and a test holds them
// against the types.

// An entry is a word and what it means.
type entry struct{ name, about string }

// scriptKeys are the keys of a script, those of a fault apart.
var scriptKeys = []entry{
	{"accounts", "who can sign in; they replace the default accounts"},
	{"accounts[].email", "the account's name"},
	{"accounts[].refresh_token", "accepted from the start; without one the account has to sign in"},
	{"accounts[].project", "the managed project (sim-project-N)"},
	{"accounts[].own_projects", "further projects that it may name"},
	{"accounts[].tier", "free-tier (default), standard-tier, g1-pro-tier or g1-ultra-tier"},
	{"accounts[].not_onboarded", "it has no project before onboardUser"},
	{"accounts[].onboard_polls", "unfinished answers of onboardUser (1)"},
	{"accounts[].banned", "403 ACCOUNT_DISABLED"},
	{"accounts[].needs_validation", "403 VALIDATION_REQUIRED"},
	{"accounts[].credits", "credits that pay for requests beyond the quota"},
	{"accounts[].project_as_object", "loadCodeAssist gives the project as an object"},
	{"accounts[].models", "the models that it has (all)"},
	{"accounts[].limits.five_hour", "requests in five hours per quota group (10000); negative: no limit"},
	{"accounts[].limits.weekly", "requests in a week per quota group (100000); negative: no limit"},
	{"accounts[].limits.per_minute", "requests in a minute per quota group (no limit)"},
	{"keys", "API keys of the official API, each the key alone or a mapping; without any, every key will do"},
	{"keys[].name", "what faults and the list of calls know it by (the key itself)"},
	{"keys[].key", "what clients send"},
	{"keys[].limits.per_minute", "requests in a minute per model (no limit)"},
	{"keys[].limits.per_day", "requests in a day per model (no limit)"},
	{"models.ID.min_version", "clients that are older get 404"},
	{"models.ID.accounts", "the emails that have the model (all)"},
	{"switches", "behaviours of the provider that are reported differently"},
	{"rotate_refresh_tokens", "every refresh answers with a new refresh token; the old one is good for one more use"},
	{"oauth_errors", "shape of the errors of /token: oauth (default) or google"},
	{"min_version", "the oldest client version that is served at all"},
	{"faults", "what goes wrong, see there"},
}

// faultKeys are the keys of a fault.
var faultKeys = []entry{
	{"do", "what happens: one of the faults"},
	{"when.host", "part of the Host header"},
	{"when.path", "part of the path"},
	{"when.method", "the word after the colon (generateContent), or the HTTP method, exactly"},
	{"when.account", "part of the account's email, or of the name or the value of the API key"},
	{"when.model", "part of the model's id"},
	{"when.call", `which of the calls that match the rest: 3, "2-4" or "5-"`},
	{"when.every", "every n-th of them"},
	{"times", "how often it strikes (every time)"},
	{"delay", "the retry delay of a 429, the pace of slow, the length of a hang"},
	{"after_chunks", "where in the stream, for those that strike there"},
	{"message", "instead of the usual text of an error"},
}

// fixedLimits cannot be changed.
var fixedLimits = []entry{
	{"64 MiB", "largest body"},
	{"100", "requests in one batchEmbedContents"},
	{"3072", "dimensions of an embedding"},
	{"8", "candidates of the official API; the private gateway gives one"},
	{"5", "stop sequences on the official API"},
	{"3599 s", "life of an access token"},
	{"10 min", "life of a sign-in code"},
	{"1000", "calls that GET /simulator/calls remembers"},
}

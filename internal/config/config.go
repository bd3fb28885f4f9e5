// Package config reads perigee's settings: one struct, its defaults, the sources that may say otherwise
// (flag over environment over file over default), and what must hold before anything is started.
//
// It says what the user wants and where each value came from. It opens no listener, makes no upstream and
// writes nothing; the commands call Load, and the daemon calls Watch to follow the file while it runs.
//
// The comments of the fields below are the manual: they are what `perigee config schema` shows.
// After changing one, run `go test ./internal/config -run Manual -update`.
package config

import (
	"time"

	"perigee"
)

// Config is everything that can be set, in the order of the file.
//
// The tags say what the types cannot: default is the value when nothing else was said, enum the only
// values, format what kind of text it is, min and max the bounds, kinds the upstreams a key belongs to, later what
// this version has not got: * is all of it, other words are those of its values.
type Config struct {
	// Address to listen on, as host:port. Port 0 takes any free port. An address that other machines can reach needs at least
	// one entry under keys.
	Listen string `yaml:"listen" default:"127.0.0.1:8741" format:"listen" example:"127.0.0.1:8741"`

	// Certificate for HTTPS. Without one, perigee serves plain HTTP.
	TLS TLS `yaml:"tls"`

	// Directory for all data: the database, generated images, the admin token and the socket for commands. A relative path
	// counts from the directory of this file. Default: ~/.local/share/perigee on Linux (or under $XDG_DATA_HOME),
	// ~/Library/Application Support/perigee on macOS, %LocalAppData%\perigee on Windows.
	DataDir string `yaml:"data_dir" format:"path" example:"~/.local/share/perigee"`

	// Least severe level to log.
	Log string `yaml:"log" default:"info" enum:"debug,info,warn,error"`

	// How log lines are written. auto writes short lines for reading when standard error is a terminal, and text
	// otherwise. text writes key=value pairs (logfmt), json writes one JSON object per line.
	LogFormat string `yaml:"log_format" default:"auto" enum:"auto,text,json"`

	// Keys that clients must present, as Authorization: Bearer, x-api-key, x-goog-api-key or ?key=. Without any, every program
	// on this machine may call perigee.
	Keys []Key `yaml:"keys"`

	// Origins of web pages and desktop apps that may call perigee from a browser, exactly as the browser sends them: scheme://host,
	// with the port if it is not the default one. Requests from all other origins are refused. The key that keys ask for is needed
	// as well. null, the origin of sandboxed pages and local files of any source, is allowed only where keys are configured.
	Origins []string `yaml:"origins" format:"origin" example:"app://obsidian.md"`

	// Further host names that clients may use for perigee when it listens on a loopback address, without port:
	// host.docker.internal. Loopback names and addresses are always allowed.
	Hosts []string `yaml:"hosts" format:"host" example:"host.docker.internal"`

	// Limits on requests and on waiting.
	Limits Limits `yaml:"limits"`

	// If true, a request with something that cannot be translated for the provider fails. If false, the answer lists what was
	// changed or dropped in x-perigee-notes.
	Strict bool `yaml:"strict" default:"false"`

	// Proxy for all connections to providers: sign-in, token refresh, quota and calls. http://, https:// or socks5://, with
	// user:password@ in front of the host if the proxy needs it, or none for no proxy at all. Empty: the proxy of the environment
	// (HTTPS_PROXY, NO_PROXY), if it names one. Loopback addresses are never reached through a proxy, and neither are addresses
	// that media.fetch fetches.
	Proxy perigee.Secret `yaml:"proxy" format:"proxy" example:"http://proxy.example.com:3128"`

	// Sources of answers. Models that no route matches are tried in this order. Without any, the built-in simulator answers.
	Upstreams []Upstream `yaml:"upstreams"`

	// Which model answers, and from which upstream.
	Models Models `yaml:"models"`

	// Images and documents that clients reference by URL.
	Media Media `yaml:"media"`

	// Where accounts, usage and thought signatures are stored.
	Store Store `yaml:"store"`

	// How long recorded data is kept.
	Retention Retention `yaml:"retention"`

	// What is kept of each call.
	Traces Traces `yaml:"traces" later:"*"`

	// What the MCP server may access.
	MCP MCP `yaml:"mcp" later:"*"`
}

// TLS is the certificate that the listener presents.
type TLS struct {
	// File with the certificate in PEM, followed by the intermediate certificates. It is read again when it changes; a pair
	// that cannot be used keeps the last good one in force. A relative path counts from the directory of this file. Adding or
	// removing tls needs a restart.
	Cert string `yaml:"cert" format:"path" example:"/etc/perigee/tls/fullchain.pem"`

	// File with the private key of the certificate in PEM, without a passphrase. A relative path counts from the directory of
	// this file.
	Key string `yaml:"key" format:"path" example:"/etc/perigee/tls/privkey.pem"`
}

// A Key lets a client in.
type Key struct {
	// Name of the key in usage, traces and logs.
	Name string `yaml:"name" required:"true" format:"name" example:"laptop"`

	// The key itself. Secrets of less than 16 characters are accepted with a warning.
	Secret perigee.Secret `yaml:"secret" required:"true" example:"env:PERIGEE_KEY"`

	// Models that the key may use, as patterns with * and ?. A pattern matches the name in the request or the model behind an
	// alias. A model that answers in place of another one must match, too. Empty: all models.
	Models []string `yaml:"models" format:"glob" example:"gemini-*"`

	// Requests per minute, counted when they arrive: one that is refused for its body or its model counts, too. Images and embeddings
	// count as many requests as the provider gets. 0: unlimited.
	RPM int `yaml:"rpm" default:"0" min:"0"`

	// Tokens per day (UTC), input and output together. What the provider does not name, such as answers that the client breaks off, is
	// estimated. 0: unlimited.
	TokensPerDay int64 `yaml:"tokens_per_day" default:"0" min:"0"`

	// Calls at the same time, from the first byte of their bodies on, and responses in the background. 0: unlimited.
	Concurrency int `yaml:"concurrency" default:"0" min:"0"`

	// When the key expires, in RFC 3339. Empty: never.
	Expires time.Time `yaml:"expires" example:"2027-01-31T00:00:00Z"`
}

// Limits bound what one call may cost.
type Limits struct {
	// Largest request body.
	Body Size `yaml:"body" default:"64MiB" min:"1" example:"64MiB"`

	// Memory that perigee may use: a size, or auto for half of what the machine or its control group has, at least 256 MiB. It is a soft
	// limit for the Go runtime (unless GOMEMLIMIT is set), and three quarters of it are a budget for what open calls hold. A call counts
	// 80 KiB, four times its body until the answer begins, and what is collected of its answer. Calls that do not fit get 503 with class
	// capacity and Retry-After, before their body is read where it announces its size; a quarter of the budget is left to bodies of up to
	// 1 MiB, and half of that to bodies of up to 100 KB. Large bodies that are arriving from one key, or from one address without a key,
	// may have half of the budget. No body may be larger than a quarter of this. At least 64MiB.
	Memory AutoSize `yaml:"memory" default:"auto" min:"64MiB" example:"auto"`

	// Connections that are open at the same time, over all clients. Further ones take the place of one that is idle; if there is none,
	// they get 503 and are closed, and with tls the handshake fails. 0: unlimited.
	Connections int `yaml:"connections" default:"4096" min:"0" max:"1000000"`

	// Largest head of a request: its first line and its headers. Larger ones get 431, as plain text from 64 KiB beyond
	// this on. A change needs a restart.
	Head Size `yaml:"head" default:"64KiB" min:"4KiB" max:"1MiB" example:"64KiB"`

	// Calls at the same time, over all clients, and responses in the background. A call counts when its body has arrived. 0: unlimited.
	Concurrency int `yaml:"concurrency" default:"0" min:"0"`

	// Longest wait for the first byte of an answer. 0: no limit.
	FirstByte time.Duration `yaml:"first_byte" default:"120s" example:"120s"`

	// Longest pause within an answer. 0: no limit.
	Idle time.Duration `yaml:"idle" default:"300s" example:"300s"`

	// Pause in a stream after which the client gets a keep-alive, so that no proxy in between closes the connection.
	KeepAlive time.Duration `yaml:"keep_alive" default:"15s" min:"1s" example:"15s"`

	// Longest wait for open calls and responses in the background to finish when perigee is stopped.
	Drain time.Duration `yaml:"drain" default:"30s" example:"30s"`

	// How long perigee still takes new calls after it was told to stop, with GET /ready answering 503, so that a load balancer
	// can take it out of service before connections are refused. 0: it stops listening at once.
	ShutdownDelay time.Duration `yaml:"shutdown_delay" default:"0s" example:"10s"`
}

// The kinds of upstreams.
const (
	KindGemini      = "gemini"
	KindAntigravity = "antigravity"
	KindLangserver  = "langserver"
	KindIDE         = "ide"
	KindSimulator   = "simulator"
)

// An Upstream is a source of answers. Fields of other kinds keep their zero value.
type Upstream struct {
	// Name of the upstream in routes, usage and x-perigee-upstream. The name simulator is reserved for kind simulator.
	Name string `yaml:"name" required:"true" format:"name" example:"studio"`

	// gemini is the official Gemini API with an API key (recommended). antigravity is the Antigravity gateway with your own
	// Google sign-in. simulator is the built-in simulator.
	Kind string `yaml:"kind" required:"true" enum:"gemini,antigravity,langserver,ide,simulator" later:"langserver,ide"`

	// Base URL of the API.
	URL string `yaml:"url" kinds:"gemini" default:"https://generativelanguage.googleapis.com" format:"url" example:"https://generativelanguage.googleapis.com"`

	// API keys, at least one. perigee moves on to the next one when a key is exhausted or rejected.
	Keys []perigee.Secret `yaml:"keys" kinds:"gemini" example:"env:GEMINI_API_KEY"`

	// Proxy for this upstream, in place of the proxy at the top of the file.
	Proxy perigee.Secret `yaml:"proxy" kinds:"gemini,antigravity" format:"proxy" example:"socks5://127.0.0.1:1080"`

	// Must be true for kinds that use a private interface. The provider's terms allow only its own clients there, and accounts
	// used with other clients have been suspended.
	AcceptTermsRisk bool `yaml:"accept_terms_risk" kinds:"antigravity,langserver,ide" default:"false"`

	// Gateway URLs, tried in order. Sign-in and quota use them in reverse order; the gemini-cli pool uses the last one only.
	Endpoints []string `yaml:"endpoints" kinds:"antigravity" default:"https://daily-cloudcode-pa.googleapis.com,https://autopush-cloudcode-pa.sandbox.googleapis.com,https://cloudcode-pa.googleapis.com" format:"url" example:"https://cloudcode-pa.googleapis.com"`

	// OAuth client and endpoints for signing in.
	OAuth OAuth `yaml:"oauth" kinds:"antigravity,langserver"`

	// How an account is chosen: sticky stays with one account while it works, round_robin alternates, hybrid weighs health,
	// remaining quota and time since last use.
	Selection string `yaml:"selection" kinds:"antigravity" default:"sticky" enum:"sticky,round_robin,hybrid"`

	// Quota pools to use, in order.
	Pools []string `yaml:"pools" kinds:"antigravity" default:"antigravity,gemini-cli" enum:"antigravity,gemini-cli"`

	// Longest wait for an account to become available before a call fails with 429 and Retry-After. 0: do not wait.
	MaxWait time.Duration `yaml:"max_wait" kinds:"antigravity" default:"60s" example:"60s"`

	// Calls per account at the same time. Further calls use another account, or wait. 0: unlimited.
	Concurrency int `yaml:"concurrency" kinds:"antigravity" default:"0" min:"0"`

	// Used fraction of an account's quota from which other accounts are preferred. 1: never. Quota data older than 15 minutes
	// is ignored.
	SoftQuota float64 `yaml:"soft_quota" kinds:"antigravity" default:"0.9" min:"0" max:"1"`

	// If true, thinking in the conversation is sent back to the model; if false, it is removed. Signed thinking inside a tool
	// loop is always sent back.
	KeepThinking bool `yaml:"keep_thinking" kinds:"antigravity" default:"false"`

	// If true, a conversation that the provider rejects as malformed is repaired and sent once more, with a note.
	SessionRecovery bool `yaml:"session_recovery" kinds:"antigravity" default:"true"`

	// Version in the first part of the User-Agent. Empty: the one that this build was made for.
	ClientVersion string `yaml:"client_version" kinds:"antigravity" format:"token"`

	// Complete User-Agent. Empty: antigravity/<client_version> <os>/<arch> perigee/<version>.
	UserAgent string `yaml:"user_agent" kinds:"antigravity" format:"header"`

	// Path of the language server program. Empty: where the IDE installs it. A relative path counts from the directory of this
	// file.
	Binary string `yaml:"binary" kinds:"langserver" format:"path" example:"/usr/share/antigravity/resources/app/extensions/antigravity/bin/language_server_linux_x64"`

	// Generation of the program. auto detects it.
	Profile string `yaml:"profile" kinds:"langserver" default:"auto" enum:"auto,classic,hub"`

	// How the program's calls to the cloud are intercepted: endpoint gives it a loopback URL, proxy sets HTTPS_PROXY,
	// transparent redirects its connections.
	Intercept string `yaml:"intercept" kinds:"langserver" default:"endpoint" enum:"endpoint,proxy,transparent"`

	// Where intercepted calls are sent.
	CloudURL string `yaml:"cloud_url" kinds:"langserver" default:"https://daily-cloudcode-pa.googleapis.com" format:"url" example:"https://cloudcode-pa.googleapis.com"`
}

// OAuth is how to sign in with Google.
type OAuth struct {
	// URL of the consent page.
	AuthURL string `yaml:"auth_url" default:"https://accounts.google.com/o/oauth2/v2/auth" format:"url" example:"https://accounts.google.com/o/oauth2/v2/auth"`

	// URL of the token endpoint.
	TokenURL string `yaml:"token_url" default:"https://oauth2.googleapis.com/token" format:"url" example:"https://oauth2.googleapis.com/token"`

	// URL that returns the email address of a token's owner.
	UserinfoURL string `yaml:"userinfo_url" default:"https://www.googleapis.com/oauth2/v2/userinfo" format:"url" example:"https://www.googleapis.com/oauth2/v2/userinfo"`

	// ID of the OAuth client. Empty: the one of an installed Antigravity IDE.
	ClientID string `yaml:"client_id" format:"token"`

	// Secret of the OAuth client.
	ClientSecret perigee.Secret `yaml:"client_secret" example:"env:ANTIGRAVITY_CLIENT_SECRET"`

	// Port of the local callback. 0: any free port.
	RedirectPort int `yaml:"redirect_port" default:"51121" min:"0" max:"65535"`
}

// Models says which model is asked, and where.
type Models struct {
	// Model for requests that name none. Empty: such requests fail.
	Default string `yaml:"default" format:"token" example:"gemini-3-flash"`

	// Model that answers requests for a model that no upstream has, with a note in x-perigee-notes. It is not used for embeddings,
	// with strict: true, or when a key does not allow both names. Empty: such requests fail with 404.
	Fallback string `yaml:"fallback" format:"token" example:"gemini-3-flash"`

	// Other names for models: the name in the request, and the model that answers. The name may be a pattern with * and ?. An
	// exact name counts before a pattern, a longer pattern before a shorter one. Patterns apply to the name in the request only,
	// also when an upstream has a model of that name; the model on the right may be an exact alias again.
	Aliases map[string]string `yaml:"aliases" example:"gemini-3-flash"`

	// Upstreams for models, by name. The first match counts. Models that no route matches go to all upstreams in order; end
	// with a route for * to prevent that.
	Routes []Route `yaml:"routes"`
}

// A Route sends models to upstreams.
type Route struct {
	// Pattern for the model name: * is any text, ? one character.
	Match string `yaml:"match" required:"true" format:"glob" example:"claude-*"`

	// Names of upstreams. The next one is tried when one does not have the model, is exhausted, overloaded or unreachable.
	To []string `yaml:"to" required:"true" format:"name" example:"studio"`
}

// Media says what is done about pictures and documents that clients only point at.
type Media struct {
	// If true, perigee downloads images and documents that OpenAI and Anthropic clients reference by URL and sends them
	// inline; if false, the URL is passed on unchanged. Only public addresses are downloaded from, and never through a proxy.
	Fetch bool `yaml:"fetch" default:"false"`

	// Largest total size of the downloads for one request.
	Max Size `yaml:"max" default:"20MiB" min:"1" example:"20MiB"`

	// Longest time for one download.
	Timeout time.Duration `yaml:"timeout" default:"20s" min:"1s" example:"20s"`
}

// Store says where things are kept.
type Store struct {
	// URL of a PostgreSQL database (postgres://…), for several replicas. Empty: SQLite in data_dir. It is treated as a secret
	// because it may contain a password.
	URL perigee.Secret `yaml:"url" format:"postgres" example:"env:DATABASE_URL"`

	// Key that encrypts refresh tokens in the database: 32 bytes in base64, as printed by openssl rand -base64 32. Replicas
	// that share a database need the same one. Empty: a key of this machine, in the OS keyring or in data_dir.
	SealKey perigee.Secret `yaml:"seal_key" format:"seal" example:"env:PERIGEE_SEAL_KEY"`

	// How much the stored responses of all clients may take together (POST /v1/responses with store, which is the default there).
	// The oldest are removed first. Each is kept for 30 days at most. What responses of one key have in common is stored and
	// counted once. At least 1MiB; a response whose conversation is larger than the limit is not stored. 0: no limit.
	Responses Size `yaml:"responses" default:"1GiB" min:"0" example:"1GiB"`
}

// Retention says how long recorded data is kept.
type Retention struct {
	// How long a call stays in traces, as a duration: 90d, 36h. Older calls are deleted in small batches while perigee runs.
	// Usage totals per day are kept, so perigee usage does not change. 0: calls are kept forever.
	Calls time.Duration `yaml:"calls" default:"90d" example:"90d"`
}

// Traces says what is kept of each call.
type Traces struct {
	// Space for traces; the oldest are removed first. 0: no traces.
	Keep Size `yaml:"keep" default:"200MiB" min:"0" example:"200MiB"`

	// If true, traces contain request and response bodies; if false, only sizes and times.
	Bodies bool `yaml:"bodies" default:"true"`
}

// MCP says what the MCP server may touch.
type MCP struct {
	// Directories that tools may read. A relative one counts from where perigee was started.
	Roots []string `yaml:"roots" default:"." format:"dir" example:"."`

	// If true, tools may write files.
	Write bool `yaml:"write" default:"true"`

	// Longest time for ask_antigravity.
	AskTimeout time.Duration `yaml:"ask_timeout" default:"60s" min:"1s" example:"60s"`
}

// Package config reads, validates and describes perigee's settings. Flags override environment
// variables, these override the file, and the file overrides defaults. The package opens no
// listener, creates no upstream and writes nothing; commands call Load, and the daemon follows the
// file with a Watcher.
//
// The structs in this file are the only description of the settings: decoding, defaults, the
// schema, the example file and docs/configuration.md all come from their tags and comments. After a
// change, run `go test ./internal/store/config -run Reference -update`.
package config

import (
	"maps"
	"net/http"
	"reflect"
	"time"

	"perigee"
)

// Config is everything that can be set, in the order of the file.
//
// Tags: yaml is the key; default the value if no source sets it, kind_default the value for a kind
// of upstream (kind=value); enum the allowed values; format the check of a text (see checkValue),
// with ? if it may be empty; min and max the bounds; required for keys that list items must have;
// kinds the upstreams that have the key, @keys for all that have API keys; example a value for the
// manual. kinds.go completes the tags of upstreams from the table of kinds.
type Config struct {
	// The address to listen on, as host:port. Port 0 selects a free port. An address that other
	// machines can reach requires at least one entry in keys.
	Listen string `yaml:"listen" default:"127.0.0.1:8741" format:"listen" example:"127.0.0.1:8741"`

	// The certificate for HTTPS. Without it, perigee serves plain HTTP.
	TLS TLS `yaml:"tls"`

	// The directory for everything that perigee stores: the database, traces, generated images, the
	// certificate authority for interception, the admin token and the Unix socket that commands
	// use. A relative path is resolved against the directory of the configuration file. Default:
	// ~/.local/share/perigee on Linux (or $XDG_DATA_HOME/perigee), ~/Library/Application
	// Support/perigee on macOS, %LocalAppData%\perigee on Windows.
	DataDir string `yaml:"data_dir" format:"path" example:"~/.local/share/perigee"`

	// The lowest level of log messages to write.
	Log string `yaml:"log" default:"info" enum:"debug,info,warn,error"`

	// The format of log lines: text writes key=value pairs (logfmt), json writes one JSON object
	// per line, and auto writes short, readable lines to a terminal and text elsewhere. The line
	// with the address ("perigee: listening on …") is plain text in every format, because scripts
	// wait for it.
	LogFormat string `yaml:"log_format" default:"auto" enum:"auto,text,json"`

	// Keys for clients. A client sends its key as Authorization: Bearer, x-api-key, x-goog-api-key
	// or ?key=. If the list is empty, every program on this machine can call perigee, and listen
	// must be a loopback address.
	Keys []Key `yaml:"keys"`

	// Web origins that may call perigee from a browser or a desktop app, exactly as sent in the
	// Origin header: scheme://host, with the port unless it is the default one. Requests with any
	// other Origin get 403. Clients still need a key if keys are configured. The origin null, which
	// any sandboxed page or local file can have, requires keys.
	Origins []string `yaml:"origins" format:"origin" example:"app://obsidian.md"`

	// Additional host names, without port, that clients may send in the Host header when perigee
	// listens on a loopback address. Loopback names and addresses are always accepted.
	Hosts []string `yaml:"hosts" format:"host" example:"host.docker.internal"`

	// Limits on size, memory, concurrency and time.
	Limits Limits `yaml:"limits"`

	// If true, a request fails with 400 if anything in it would have to be changed or dropped for
	// the provider, except for names of tools, which are restored in the answer, and the model's own
	// thinking of earlier turns. Reasoning of another provider is dropped, so a conversation that
	// contains some cannot change its provider. If false, the request is adapted, and the
	// x-perigee-notes header lists the changes.
	Strict bool `yaml:"strict" default:"false"`

	// The proxy for connections to providers: calls, sign-in, token refresh and quota. An http://,
	// https:// or socks5:// URL, with user:password@ before the host if the proxy requires it, or
	// none to connect directly. Empty means the proxy that HTTPS_PROXY and NO_PROXY specify, if
	// any. Loopback addresses and downloads for media.fetch never use a proxy.
	Proxy perigee.Secret `yaml:"proxy" format:"proxy" example:"http://proxy.example.com:3128"`

	// The sources of answers. A model that no route matches is tried at each upstream in this
	// order. If the list is empty, the built-in simulator answers.
	Upstreams []Upstream `yaml:"upstreams"`

	// Which model answers a request, and which upstream serves it.
	Models Models `yaml:"models"`

	// Prices of models, in US dollars per million tokens. They take precedence over the built-in
	// list prices, and are used for the costs that perigee shows and for cost_per_day. The cost of
	// a model with neither is unknown.
	Prices []Price `yaml:"prices"`

	// Images and documents that clients reference by URL.
	Media Media `yaml:"media"`

	// The database for accounts, calls, usage, stored responses and thought signatures.
	Store Store `yaml:"store"`

	// How long recorded data is kept.
	Retention Retention `yaml:"retention"`

	// How calls of language servers to their cloud are intercepted, and what perigee mitm does.
	Interception Interception `yaml:"interception"`

	// What is recorded for each call.
	Traces Traces `yaml:"traces"`

	// OpenTelemetry traces of calls.
	Telemetry Telemetry `yaml:"telemetry"`

	// What MCP clients may access, and what answers ask_antigravity.
	MCP MCP `yaml:"mcp"`
}

// Telemetry is the destination of OpenTelemetry traces.
type Telemetry struct {
	// The URL of an OpenTelemetry collector that accepts OTLP over HTTP. perigee appends
	// /v1/traces, and sends a span for each call and each of its attempts, with the attributes of
	// the GenAI conventions and without prompts, answers and accounts. If it is empty, nothing is
	// sent.
	OTLPEndpoint string `yaml:"otlp_endpoint" format:"url?" example:"http://127.0.0.1:4318"`

	// Headers for the collector, such as an API key: name=value, several separated by commas, as in
	// OTEL_EXPORTER_OTLP_HEADERS.
	Headers []perigee.Secret `yaml:"headers" format:"headers" example:"env:OTEL_EXPORTER_OTLP_HEADERS"`
}

// Header are the headers for the collector.
func (t Telemetry) Header() http.Header {
	all := http.Header{}
	for _, text := range t.Headers {
		headers, _ := parseHeaders(text.Reveal()) // they were checked
		maps.Copy(all, headers)
	}
	return all
}

// TLS is the certificate of the listener.
type TLS struct {
	// The file with the certificate in PEM format, followed by any intermediate certificates.
	// perigee reads both files again when they change; if the new pair is invalid, the previous one
	// stays in use. A relative path is resolved against the directory of the configuration file.
	// Adding or removing tls requires a restart.
	Cert string `yaml:"cert" format:"path" example:"/etc/perigee/tls/fullchain.pem"`

	// The file with the private key of the certificate in PEM format, without a passphrase. A
	// relative path is resolved against the directory of the configuration file.
	Key string `yaml:"key" format:"path" example:"/etc/perigee/tls/privkey.pem"`
}

// Interception is the set-up of the proxy between a program and its servers.
type Interception struct {
	// The address of the intercepting proxy, which must be a loopback address. perigee serve opens
	// it only if an upstream has intercept: proxy or transparent. Port 0 chooses a free port.
	Listen string `yaml:"listen" default:"127.0.0.1:8742" format:"listen" example:"127.0.0.1:8742"`

	// Patterns for the hosts with intercepted traffic, where * matches characters other than
	// the dot. Connections to other hosts pass through unread. If the list changes, perigee creates
	// a new certificate authority, which clients must then trust.
	Hosts []string `yaml:"hosts" default:"cloudcode-pa.googleapis.com,daily-cloudcode-pa.googleapis.com,daily-cloudcode-pa.sandbox.googleapis.com,autopush-cloudcode-pa.sandbox.googleapis.com" format:"hosts" example:"*.example.org"`

	// A file in PEM format with additional certificate authorities to trust for the certificates of
	// servers. A relative path is resolved against the directory of the configuration file.
	UpstreamCA string `yaml:"upstream_ca" format:"path" example:"/etc/ssl/company.pem"`

	// The proxy for intercepted and tunnelled connections: an http:// or socks5:// URL. Empty means
	// no proxy.
	UpstreamProxy perigee.Secret `yaml:"upstream_proxy" format:"proxy" example:"socks5://127.0.0.1:1080"`

	// What happens to usage statistics that a language server sends: pass sends them on, local
	// answers them with an empty success.
	Telemetry string `yaml:"telemetry" default:"pass" enum:"pass,local"`
}

// A Key is the credential of a client.
type Key struct {
	// The name of the key in usage, traces and logs.
	Name string `yaml:"name" required:"true" format:"name" example:"laptop"`

	// The key that the client sends. A key of fewer than 16 characters causes a warning.
	Secret perigee.Secret `yaml:"secret" required:"true" example:"env:PERIGEE_KEY"`

	// Patterns for the models that the key may use. A request is allowed if a pattern matches
	// either the requested name or the model that an alias resolves to; in UPSTREAM/MODEL only the
	// model counts. A model that answers in place of an unavailable one must match as well. Other
	// models get 403. Empty means all models.
	Models []string `yaml:"models" format:"glob" example:"gemini-*"`

	// The maximum number of requests per minute; further ones get 429. A request counts when it
	// arrives, even if it is then refused because of its body or its model. Embeddings and images
	// count once per request to the provider. 0 means no limit.
	RPM int `yaml:"rpm" default:"0" min:"0"`

	// The maximum number of input and output tokens per day, in UTC; when they are used up,
	// requests get 429. Tokens that the provider does not report, for example when the client
	// disconnects, are estimated. 0 means no limit.
	TokensPerDay int64 `yaml:"tokens_per_day" default:"0" min:"0"`

	// The maximum cost per day, in UTC, in US dollars at list price; when it is reached, requests
	// get 429. A call counts when it ends. Calls of models without a price do not count; perigee
	// config check names those that are in the configuration or known to perigee, but does not ask
	// providers for their models. 0 means no limit.
	CostPerDay float64 `yaml:"cost_per_day" default:"0" min:"0" example:"5.00"`

	// The maximum number of simultaneous calls, background responses included; further ones get
	// 429. A call counts as soon as its body begins to arrive. 0 means no limit.
	Concurrency int `yaml:"concurrency" default:"0" min:"0"`

	// The time from which the key gets 401, in RFC 3339 format. Empty means that it does not
	// expire.
	Expires time.Time `yaml:"expires" example:"2027-01-31T00:00:00Z"`
}

// A Price is what the tokens of models cost, in US dollars per million.
type Price struct {
	// The name of a model, or a pattern. A name takes precedence over a pattern, and a longer
	// pattern over a shorter one.
	Model string `yaml:"model" required:"true" format:"glob" example:"gpt-oss-*"`

	// The price of input tokens.
	Input float64 `yaml:"input" required:"true" min:"0" example:"0.50"`

	// The price of input tokens that the provider had in its cache. 0 means that they are free. If
	// it is not set, or -1, it is the same as input.
	Cached float64 `yaml:"cached" default:"-1" min:"-1" example:"0.05"`

	// The price of input tokens that the provider writes to its cache for minutes. 0 means that they
	// are free. If it is not set, or -1, it is 1.25 times input. Tokens that the cache keeps for an
	// hour cost 1.6 times as much as these, which is twice input.
	CacheWrite float64 `yaml:"cache_write" default:"-1" min:"-1" example:"0.625"`

	// The price of output tokens, including thinking.
	Output float64 `yaml:"output" required:"true" min:"0" example:"3.00"`

	// The price of input tokens in requests with more than 200,000 of them. 0 means the same as
	// input.
	LongInput float64 `yaml:"long_input" default:"0" min:"0" example:"1.00"`

	// The price of cached input tokens in such requests. 0 means that they are free. If it is not
	// set, or -1, it is the same as long_input, or else as cached.
	LongCached float64 `yaml:"long_cached" default:"-1" min:"-1" example:"0.10"`

	// The price of output tokens in such requests. 0 means the same as output.
	LongOutput float64 `yaml:"long_output" default:"0" min:"0" example:"4.50"`
}

// Limits bound the cost of calls.
type Limits struct {
	// The maximum size of a request body. Larger ones get 413.
	Body Size `yaml:"body" default:"64MiB" min:"1" example:"64MiB"`

	// The memory that perigee may use. auto is half of the memory of the machine or its control
	// group, and at least 256 MiB. This is the soft limit of the Go runtime (unless GOMEMLIMIT is
	// set), and three quarters of it are the budget for open calls. A call is charged 80 KiB, four
	// times the size of its body and of the media that were fetched for it until the answer begins,
	// and what is buffered of the answer. A call that does not fit gets 503 with class capacity and
	// Retry-After, before its body is read if Content-Length is known. A quarter of the budget is
	// reserved for bodies of up to 1 MiB, and half of that quarter for bodies of up to 100 KB.
	// Uploads of large bodies by one key, or by one address without a key, may take up half of the
	// budget. The maximum size of a body is a quarter of this value, if that is less than
	// limits.body.
	Memory AutoSize `yaml:"memory" default:"auto" min:"64MiB" example:"auto"`

	// The maximum number of open client connections. A further connection replaces an idle one; if
	// none is idle, it gets 503 and is closed, or with tls fails in the handshake. 0 means no
	// limit.
	Connections int `yaml:"connections" default:"4096" min:"0" max:"1000000"`

	// The maximum size of the request line and headers. Larger ones get 431 (as plain text if they
	// exceed the limit by 64 KiB or more). A change requires a restart.
	Head Size `yaml:"head" default:"64KiB" min:"4KiB" max:"1MiB" example:"64KiB"`

	// The maximum number of simultaneous calls from all clients, background responses included;
	// further ones get 429. A call counts once its body has arrived. 0 means no limit.
	Concurrency int `yaml:"concurrency" default:"0" min:"0"`

	// The maximum time to wait for the first byte of an upstream's answer. After that the attempt
	// fails, and so does the call, with 504, if no other upstream can answer. 0 means no limit.
	FirstByte time.Duration `yaml:"first_byte" default:"120s" example:"120s"`

	// The maximum time between two events of an upstream's answer, or comments that it sends to keep
	// the connection alive. After that the attempt fails. 0 means no limit.
	Idle time.Duration `yaml:"idle" default:"300s" example:"300s"`

	// How long a stream may be silent before the client is sent a keep-alive, which prevents
	// proxies from closing the connection.
	KeepAlive time.Duration `yaml:"keep_alive" default:"15s" min:"1s" example:"15s"`

	// The maximum time to wait for open calls and background responses when perigee stops. After
	// that they are cut off.
	Drain time.Duration `yaml:"drain" default:"30s" example:"30s"`

	// How long perigee accepts new calls after it was asked to stop, while GET /ready answers 503,
	// so that a load balancer can remove it from service before connections are refused. If it is
	// 0, it stops listening at once.
	ShutdownDelay time.Duration `yaml:"shutdown_delay" default:"0s" example:"10s"`
}

// AskModel is the value of mcp.ask for a model. The other values are kinds of upstreams.
const AskModel = "model"

// An Upstream is a source of answers. Fields of other kinds keep their zero value.
type Upstream struct {
	// The name of the upstream in routes, usage and the x-perigee-upstream header. A request for the
	// model NAME/MODEL always means the model of this upstream. Only an upstream of kind simulator
	// may be named simulator.
	Name string `yaml:"name" required:"true" format:"name" example:"studio"`

	// The kind of source.
	Kind string `yaml:"kind" required:"true"`

	// The base URL of the API. For vertex, the default depends on location.
	URL string `yaml:"url" kinds:"@keys" format:"url"`

	// API keys; at least one is required, except for kinds vertex and ollama, and for servers of kind openai other than OpenAI. When a key runs out of quota for a model, calls of that
	// model use the next one until the quota resets. A key that the provider rejects is not used
	// for a minute. If no other key answers, these are tried, too.
	Keys []perigee.Secret `yaml:"keys" kinds:"@keys" example:"env:GEMINI_API_KEY"`

	// The API that is called: chat or responses. auto is the one that the client speaks at OpenAI and
	// Azure, where clients of other APIs get responses, and chat at all other servers.
	API string `yaml:"api" kinds:"openai" default:"auto" enum:"auto,chat,responses"`

	// How the key is sent: bearer is the Authorization header, api-key and x-api-key are headers of
	// these names, and none sends no key.
	Auth string `yaml:"auth" kinds:"openai,anthropic" default:"bearer" kind_default:"anthropic=x-api-key" enum:"bearer,api-key,x-api-key,none"`

	// Whether perigee marks conversations of clients of other APIs for the provider's prompt cache:
	// auto adds one mark to requests that have none. Clients of the Messages API set their own.
	Cache string `yaml:"cache" kinds:"anthropic,vertex" default:"auto" enum:"auto,off"`

	// The project of Google Cloud. Empty means $GOOGLE_CLOUD_PROJECT, or else the project that the
	// credentials name.
	Project string `yaml:"project" kinds:"vertex" format:"project?" example:"my-project"`

	// The location of the models: global, us, eu, or a region such as europe-west4. Empty means
	// $GOOGLE_CLOUD_LOCATION, or else global.
	Location string `yaml:"location" kinds:"vertex" format:"location?" example:"europe-west4"`

	// Where the Google credentials are. auto: the file that GOOGLE_APPLICATION_CREDENTIALS names, or
	// else the one that gcloud auth application-default login writes. file:PATH is another file of
	// the same form; a relative path is resolved against the directory of the configuration file.
	// metadata: the metadata server of a machine of Google. A file that has changed is read again.
	// With keys, calls use these instead, and only Gemini models are available.
	Credentials string `yaml:"credentials" kinds:"vertex" default:"auto" format:"credentials" example:"file:~/service-account.json"`

	// The most tokens that a model is loaded with: prompt and answer together. perigee asks for what a
	// request needs, in steps of 4096, and doubles that when a later request needs more, because the
	// server loads the model anew for each change. The limit of the model counts if it is lower. A
	// longer prompt is refused as too long; nothing is cut.
	Context int `yaml:"context" kinds:"ollama" default:"65536" min:"2048"`

	// How long the server keeps a model loaded after a call. 0 unloads it at once.
	KeepAlive time.Duration `yaml:"keep_alive" kinds:"ollama" default:"30m"`

	// How calls use several keys: sticky uses the first one that is not used up, which keeps the
	// provider's prompt cache; round_robin uses one after the other.
	Spread string `yaml:"spread" kinds:"@keys" default:"sticky" enum:"sticky,round_robin"`

	// Patterns for the models of the provider that this upstream offers. Other models are not
	// listed, and calls for them get 404 unless another upstream has them, also as UPSTREAM/MODEL.
	// Nothing answers in place of a model that all upstreams leave out, not even models.fallback.
	// Empty means all models.
	Models []string `yaml:"models" kinds:"@keys" format:"glob" example:"gemini-*"`

	// Headers to add to each request, by name. Authorization, Cookie, Host, User-Agent, Content-*
	// and headers of the connection cannot be set. Values may be written as env:NAME or file:PATH;
	// a value with a word of 16 characters or more, except a URL, is treated as a secret.
	Headers map[string]perigee.Secret `yaml:"headers" kinds:"@keys" format:"header" example:"{X-Title: perigee}"`

	// Members to set in the body of each request for an answer, in the provider's own names; a.b is
	// the member b of a. Requests for embeddings and images are not changed. A value of the client
	// that is replaced is a note in x-perigee-notes, or an error with strict. model, stream,
	// messages, input and contents cannot be set. With kind openai and api: auto, both APIs get these
	// members; if only one has them, set api as well.
	Set map[string]JSON `yaml:"set" kinds:"@keys" example:"{generationConfig.temperature: 1}"`

	// Members to set, as with set, in requests that do not have them.
	Default map[string]JSON `yaml:"default" kinds:"@keys" example:"{generationConfig.maxOutputTokens: 8192}"`

	// Members to remove from the body of each request for an answer, named as in set. A member that
	// is removed is a note in x-perigee-notes, or an error with strict.
	Drop []string `yaml:"drop" kinds:"@keys" format:"member" example:"generationConfig.logprobs"`

	// As limits.first_byte, for this upstream. If it is not set, limits.first_byte applies, except for
	// kind ollama: loading a model may take minutes.
	FirstByte time.Duration `yaml:"first_byte" kinds:"@keys" kind_default:"ollama=10m" example:"120s"`

	// As limits.idle, for this upstream. If it is not set, limits.idle applies.
	Idle time.Duration `yaml:"idle" kinds:"@keys" example:"300s"`

	// The proxy for this upstream. It overrides the top-level proxy and takes the same values.
	Proxy perigee.Secret `yaml:"proxy" kinds:"@keys,antigravity,langserver" format:"proxy" example:"socks5://127.0.0.1:1080"`

	// Must be true for kinds that use a private API. The provider's terms allow only its own
	// clients there, and accounts used with other clients have been suspended.
	AcceptTermsRisk bool `yaml:"accept_terms_risk" kinds:"antigravity,langserver,ide" default:"false"`

	// Base URLs of the gateway, tried in order. Sign-in and quota try them in reverse order; the
	// gemini-cli pool uses only the last one.
	Endpoints []string `yaml:"endpoints" kinds:"antigravity" default:"https://daily-cloudcode-pa.googleapis.com,https://autopush-cloudcode-pa.sandbox.googleapis.com,https://cloudcode-pa.googleapis.com" format:"url"`

	// The upstream of kind antigravity with the accounts that the language server uses. Empty means
	// accounts of its own, which perigee login
	// --upstream NAME and perigee account import --upstream NAME add.
	AccountsFrom string `yaml:"accounts_from" kinds:"langserver" format:"name?" example:"antigravity"`

	// The address of the only account that the language server may use. Empty means the account
	// that the pool chooses for each call, as for kind antigravity. The language server has one
	// account at a time; calls with different accounts take turns until they have been sent.
	Account string `yaml:"account" kinds:"langserver" format:"email?" example:"ada@example.com"`

	// The OAuth client and the endpoints for sign-in. A language server needs them only for
	// accounts of its own.
	OAuth OAuth `yaml:"oauth" kinds:"antigravity,langserver"`

	// How an account is selected for a call: sticky keeps using one account while it is available,
	// round_robin rotates through the accounts, and hybrid weighs health, remaining quota and time
	// since last use.
	Selection string `yaml:"selection" kinds:"antigravity" default:"sticky" enum:"sticky,round_robin,hybrid"`

	// The quota pools to use for Gemini text models, in order of preference.
	Pools []string `yaml:"pools" kinds:"antigravity" default:"antigravity,gemini-cli" enum:"antigravity,gemini-cli"`

	// The maximum time that a call waits for an available account before it fails with 429 and
	// Retry-After. If it is 0, calls do not wait.
	MaxWait time.Duration `yaml:"max_wait" kinds:"antigravity" default:"60s" example:"60s"`

	// For kinds with API keys, the maximum number of simultaneous calls: further calls wait for up
	// to wait, in the order of their arrival. Counts of tokens and lists of models do not count. For
	// antigravity, the maximum number of simultaneous calls per account: further calls use
	// another account or wait for up to max_wait. For langserver and ide, the maximum number of
	// simultaneous conversations: further calls wait in the queue. 0 means no limit.
	Concurrency int `yaml:"concurrency" kinds:"@keys,antigravity,langserver,ide" default:"0" kind_default:"langserver=2,ide=4" min:"0"`

	// The maximum time that a call waits while concurrency other calls are open. After that it gets
	// 429 with class rate_limited and Retry-After, unless another upstream answers. If it is 0,
	// calls do not wait.
	Wait time.Duration `yaml:"wait" kinds:"@keys" default:"30s" example:"30s"`

	// The calls that wait for a language server or an IDE while all its conversations are in use.
	// They begin in the order of their arrival.
	Queue Queue `yaml:"queue" kinds:"langserver,ide"`

	// The fraction of its quota, from 0 to 1, that an account may use before other accounts are
	// preferred. Quota data older than 15 minutes is ignored. 0 and 1: no preference.
	SoftQuota float64 `yaml:"soft_quota" kinds:"antigravity" default:"0.9" min:"0" max:"1"`

	// If true, the thinking in the conversation history is sent back to the model; if false, it is
	// removed. Signed thinking within a tool loop is always sent back, because the provider
	// requires it.
	KeepThinking bool `yaml:"keep_thinking" kinds:"antigravity" default:"false"`

	// If true, a conversation that the provider rejects as malformed is repaired and sent once
	// more, with a note in x-perigee-notes.
	SessionRecovery bool `yaml:"session_recovery" kinds:"antigravity" default:"true"`

	// The client version at the start of the User-Agent header. Empty means the version that this
	// build was tested with.
	ClientVersion string `yaml:"client_version" kinds:"antigravity" format:"token"`

	// The complete User-Agent header. Empty means antigravity/<client_version> <os>/<arch>
	// perigee/<version>.
	UserAgent string `yaml:"user_agent" kinds:"antigravity" format:"header"`

	// The path of the language server program. Empty means the path where the IDE installs it.
	// simulator: a built-in stand-in, to try everything without the IDE. A relative path is
	// resolved against the directory of the configuration file.
	Binary string `yaml:"binary" kinds:"langserver" format:"program" example:"/usr/share/antigravity/resources/app/extensions/antigravity/bin/language_server_linux_x64"`

	// For langserver, the generation of the language server: classic is the one in the IDE, hub the
	// standalone one; auto detects it. For openai, the server, which determines what it accepts and
	// how it differs from OpenAI: openai, azure, openrouter, deepseek, groq, mistral, xai, fireworks,
	// vllm, llamacpp, lmstudio or generic; auto derives it from the host of url, and servers of your
	// own are generic then.
	Profile string `yaml:"profile" kinds:"langserver,openai" default:"auto" enum:"auto,classic,hub,openai,azure,openrouter,deepseek,groq,mistral,xai,fireworks,vllm,llamacpp,lmstudio,generic"`

	// The version of the IDE that the language server reports to the provider. Empty means the
	// version of the IDE that the program is installed with, or else what the program prints with
	// --stamp, if that has the form 1.20.5. If the version is unknown, a warning is logged.
	Version string `yaml:"version" kinds:"langserver" format:"token" example:"1.20.5"`

	// How the language server's calls to the cloud are intercepted: endpoint gives it a loopback
	// URL, proxy sets HTTPS_PROXY, transparent redirects its connections, for which perigee
	// redirect install creates the user that it runs as.
	Intercept string `yaml:"intercept" kinds:"langserver" default:"endpoint" enum:"endpoint,proxy,transparent"`

	// The URL to which intercepted calls are sent. Empty means the host that the language server
	// calls, which is https://daily-cloudcode-pa.googleapis.com.
	CloudURL string `yaml:"cloud_url" kinds:"langserver" format:"url?" example:"https://daily-cloudcode-pa.googleapis.com"`

	// The maximum time from the start of the language server until it can answer. After that it is
	// started again, at most three times in a minute. Calls wait for a language server that is
	// starting.
	StartTimeout time.Duration `yaml:"start_timeout" kinds:"langserver" default:"60s" min:"100ms" example:"60s"`

	// The memory of the language server and its child processes beyond which it is restarted, as
	// soon as no call is running. 0 means no limit.
	Memory Size `yaml:"memory" kinds:"langserver" default:"0" min:"0" example:"2GiB"`

	// The directory that the language server works in. Empty means an empty directory in data_dir
	// that is private to it. With attach, the directory that is open in the IDE. For ide, a
	// directory that is open in the IDE; empty means the only open window. A relative path is
	// resolved against the directory of the configuration file.
	Workspace string `yaml:"workspace" kinds:"langserver,ide" format:"path" example:"~/project"`

	// What the language server may do through perigee: edit lets it change files in workspace,
	// command lets it run commands. Everything else is refused.
	Allow []string `yaml:"allow" kinds:"langserver" enum:"edit,command" example:"edit"`

	// The settings that the language server gets from perigee as the preferences of its user. They
	// are for language servers of profile classic: hub reads none. They permit nothing that allow
	// does not.
	Policies Policies `yaml:"policies" kinds:"langserver"`

	// Additional arguments for the language server, after perigee's own.
	Args []string `yaml:"args" kinds:"langserver" format:"argument" example:"--verbose"`

	// Additional environment variables for the language server. It gets only PATH, HOME, LANG,
	// TMPDIR, variables for proxies and certificates, and these. HOME is a directory in data_dir.
	Env map[string]string `yaml:"env" kinds:"langserver" format:"argument" example:"C.UTF-8"`

	// If true, perigee uses the language server of a running IDE with the account of the IDE. It
	// starts and stops no process then, and a call can only send text.
	Attach bool `yaml:"attach" kinds:"langserver" default:"false"`
}

// Queue bounds the calls that wait.
type Queue struct {
	// The maximum number of waiting calls. Further ones get 503 with class capacity and
	// Retry-After. If it is 0, calls do not wait.
	Depth int `yaml:"depth" default:"50" min:"0"`

	// The maximum time that a call waits. After that it gets 408 with class unavailable and
	// Retry-After. 0 means no limit.
	Timeout time.Duration `yaml:"timeout" default:"600s" example:"600s"`
}

// Policies are preferences of the user of a language server. With the defaults, its secure mode is
// on.
type Policies struct {
	// Whether the agent may run terminal commands without approval. off: each command needs one.
	// ask: the agent asks before commands that it does not consider safe. auto: it does not ask. In
	// prompts of perigee, the agent always asks.
	Terminal string `yaml:"terminal" default:"off" enum:"off,ask,auto"`

	// Whether the agent may use a browser. Scripts in pages still need approval, and no site is
	// allowed in advance.
	Browser bool `yaml:"browser" default:"false"`

	// The files that the agent may read. workspace: those in workspace that git does not ignore.
	// all: also files that git ignores, and files outside of workspace.
	Files string `yaml:"files" default:"workspace" enum:"workspace,all"`
}

// OAuth is the client for signing in with Google.
type OAuth struct {
	// The URL of the authorization endpoint, which shows the consent page.
	AuthURL string `yaml:"auth_url" default:"https://accounts.google.com/o/oauth2/v2/auth" format:"url"`

	// The URL of the token endpoint.
	TokenURL string `yaml:"token_url" default:"https://oauth2.googleapis.com/token" format:"url"`

	// The URL of the userinfo endpoint, which returns the email address of the signed-in account.
	UserinfoURL string `yaml:"userinfo_url" default:"https://www.googleapis.com/oauth2/v2/userinfo" format:"url"`

	// The client ID. Empty means the client of an installed Antigravity IDE.
	ClientID string `yaml:"client_id" format:"token"`

	// The client secret.
	ClientSecret perigee.Secret `yaml:"client_secret" example:"env:ANTIGRAVITY_CLIENT_SECRET"`

	// The local port that receives the callback. 0 means a free port.
	RedirectPort int `yaml:"redirect_port" default:"51121" min:"0" max:"65535"`
}

// Models selects models and upstreams for requests.
type Models struct {
	// The model for requests that name none. If it is empty, such requests fail with 400.
	Default string `yaml:"default" format:"token" example:"gemini-3-flash"`

	// The model that answers requests for a model that no upstream has; x-perigee-notes names the
	// substitution. It is not used for embeddings, if strict is true, or if the client's key does
	// not allow both models. If it is empty, such requests fail with
	// 404.
	Fallback string `yaml:"fallback" format:"token" example:"gemini-3-flash"`

	// Alternative names for models. The left side is the name in the request, exact or a pattern;
	// the right side is the model that answers, or another exact alias. An exact name takes
	// precedence over a pattern, and a longer pattern over a shorter one. A pattern applies even if
	// an upstream has a model of the requested name.
	Aliases map[string]string `yaml:"aliases" format:"name" example:"gemini-3-flash"`

	// Which upstreams serve which models. The first route that matches applies. A model that no
	// route matches goes to the upstreams that list it, in their order in this file, and then to
	// those without a list. If all have lists and none has the model, all are asked in this order,
	// because providers do not list all their models. To prevent that, end the list with a route for
	// *. UPSTREAM/MODEL always means that upstream, whatever the routes are.
	Routes []Route `yaml:"routes"`
}

// A Route sends models to upstreams. It has To, Model or both.
type Route struct {
	// The pattern for the model name: * matches any text, ? any single character. It is compared
	// with the model that aliases lead to, and, if the route has a model, with the name in the
	// request as well.
	Match string `yaml:"match" required:"true" format:"glob" example:"claude-*"`

	// Conditions on the request: the route applies only to requests that fulfil all of them. perigee explain shows which routes depend on the request.
	When Condition `yaml:"when"`

	// The names of the upstreams, in order. The next one is tried if an upstream does not have the
	// model, is out of quota, overloaded or unreachable. It may be left out if the route has a
	// model: then the routes without a model decide, for that model.
	To []string `yaml:"to" usual:"true" format:"name" example:"studio"`

	// The model that answers in place of the one in the request, or an exact alias. The answer names
	// it.
	Model string `yaml:"model" format:"token?" example:"gemini-3-flash"`
}

// A Condition restricts a route to some of the requests.
type Condition struct {
	// Which agent sends the request: sub is an agent that another one has started, which Claude
	// Code and Codex report in a header; main is every other request.
	Agent string `yaml:"agent" enum:"main,sub" example:"sub"`

	// How long the request is, in estimated tokens, as a comparison: >N, >=N, <N or <=N.
	InputTokens Comparison `yaml:"input_tokens" example:">200000"`

	// Whether the conversation has images, including those in the results of tools. Requests for
	// embeddings never fulfil images, input_tokens and tools.
	Images *bool `yaml:"images" example:"true"`

	// Whether the model may call tools.
	Tools *bool `yaml:"tools" example:"false"`
}

// Media controls the download of images and documents that clients reference by URL.
type Media struct {
	// If true, perigee downloads the images and documents that OpenAI and Anthropic clients
	// reference by URL and sends their content to the provider; if false, the URL is passed on
	// unchanged, or the request refused if the provider reads no URLs. Only public addresses are
	// contacted, and never through a proxy.
	Fetch bool `yaml:"fetch" default:"false"`

	// The maximum total size of the downloads for one request. Beyond it, the request fails with
	// 400.
	Max Size `yaml:"max" default:"20MiB" min:"1" example:"20MiB"`

	// The maximum duration of one download. After that, the request fails with 400.
	Timeout time.Duration `yaml:"timeout" default:"20s" min:"1s" example:"20s"`
}

// Store is the database.
type Store struct {
	// The URL of a PostgreSQL database (postgres://…), which several replicas can share. Empty
	// means SQLite in data_dir. The URL is treated as a secret because it may contain a password. A
	// change requires a restart.
	URL perigee.Secret `yaml:"url" format:"postgres" example:"env:DATABASE_URL"`

	// The key that encrypts refresh tokens in the database: 32 bytes in base64, as printed by
	// openssl rand -base64 32. Replicas that share a database need the same key. Empty means a key
	// that is generated for this machine and kept in the OS keyring or in data_dir. A change
	// requires a restart.
	SealKey perigee.Secret `yaml:"seal_key" format:"seal" example:"env:PERIGEE_SEAL_KEY"`

	// The maximum total size of stored responses (POST /v1/responses with store, the default
	// there). When it is reached, the oldest are deleted; each is deleted after 30 days in any
	// case. What responses of one key have in common is stored and counted once. A response whose
	// conversation exceeds the limit is not stored. At least 1MiB; 0 means no limit.
	Responses Size `yaml:"responses" default:"1GiB" min:"0" example:"1GiB"`
}

// Retention is how long recorded data is kept.
type Retention struct {
	// How long calls are kept in the database, where perigee trace list finds them. Older ones are
	// deleted in small batches while perigee runs. Daily usage totals are kept, so perigee usage
	// does not change. 0 means forever.
	Calls time.Duration `yaml:"calls" default:"90d" example:"90d"`
}

// Traces controls what is kept of each call.
type Traces struct {
	// The maximum space of data_dir/traces on the disk; the oldest calls are deleted first. Calls
	// that are still open may exceed it. If it is 0, no files are written, and existing ones are
	// deleted.
	Keep Size `yaml:"keep" default:"200MiB" min:"0" example:"200MiB"`

	// If true, traces contain request and response bodies, without the secrets that perigee knows;
	// if false, only times, tries, notes and error classes. Calls without bodies cannot be
	// replayed.
	Bodies bool `yaml:"bodies" default:"true"`
}

// MCP controls what the MCP server may access and how it answers ask_antigravity.
type MCP struct {
	// Directories that the file tools may use. A relative path is resolved against the directory of
	// the configuration file. If it is empty, perigee mcp uses the directory in which it was
	// started, and /mcp has no file tools. /mcp has them only for clients with a key from keys, or
	// with the admin token. perigee's own files cannot be accessed.
	Roots []string `yaml:"roots" format:"dir" example:"~/project"`

	// If true, the tools of perigee mcp may write files. If false, the prompts of ask_antigravity
	// are read-only as well.
	Write bool `yaml:"write" default:"true"`

	// If true, the tools of /mcp may write files, unless write is false. If false, the prompts of
	// ask_antigravity over /mcp are read-only as well.
	HTTPWrite bool `yaml:"http_write" default:"false"`

	// What answers ask_antigravity, in this order: ide is an open IDE, langserver a headless
	// language server, model a model. ide and langserver need an upstream of that kind. The next
	// one is tried only if none has received the prompt yet.
	Ask []string `yaml:"ask" default:"ide,langserver,model" enum:"ide,langserver,model"`

	// The model that answers ask_antigravity in place of an agent. Empty means models.default, or
	// else a fast model.
	Model string `yaml:"model" example:"gemini-3-flash"`

	// How long ask_antigravity waits for progress. While the answer makes progress, it may take up
	// to ask_max. After that, the client gets the answer so far, and can ask for the rest. Many
	// clients give up after 60s without an answer.
	AskTimeout time.Duration `yaml:"ask_timeout" default:"50s" min:"1s" example:"50s"`

	// The maximum duration of ask_antigravity while its answer makes progress.
	AskMax time.Duration `yaml:"ask_max" default:"10m" min:"1s" example:"10m"`
}

// upstreamField returns a field of upstreams by its name in the file.
func upstreamField(name string) *field {
	return findField(fieldsOf(reflect.TypeFor[Upstream]()), name)
}

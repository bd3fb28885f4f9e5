package simulator

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee/internal/simulator/openai"
	"perigee/internal/simulator/rules"
)

// Options configure a Server; the zero value is a working simulator.
type Options struct {
	Now    func() time.Time // time.Now if nil
	Logger *slog.Logger     // nil discards all messages
	// CallLevel is the level of the line about each call; the zero value is slog.LevelInfo.
	CallLevel slog.Level
	Script    *Script        // nil if there is none
	Switches  rules.Switches // rules.DefaultSwitches if zero; the script's switches are added
	Accounts  []Account      // if nil, the accounts of the script, or DefaultAccounts
	// Seed is the source of IDs, tokens and signatures: the same seed gives the same bytes.
	Seed string
	// APIKeys are the keys of v1beta and of the other providers that are accepted. If it is empty, the keys of the script are, or any key
	// that is not empty.
	APIKeys []APIKey
	// AnyToken accepts access tokens of other sign-in servers: they are the first account's.
	AnyToken bool
	// Profile is the server that the APIs of OpenAI answer and refuse like; see [Profiles]. OpenAI
	// itself if empty.
	Profile string
	// Admin opens /simulator/…, which lets every client change the server's behaviour.
	Admin bool
	// Sleep waits for paces and hangs; real time if nil.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Server is the simulated provider. It is an http.Handler for all the provider's hosts at once; the
// Host header only matters to faults. All methods may be used concurrently.
type Server struct {
	logger            *slog.Logger
	callLevel         slog.Level
	switches          rules.Switches
	catalogue         catalogue
	signer            signer
	seed              string
	anyToken          bool
	admin             bool
	rotate            bool
	googleTokenErrors bool
	realNow           func() time.Time
	sleep             func(ctx context.Context, d time.Duration) error
	accounts          []Account // as configured, for Reset
	apiKeys           []APIKey  // as configured, for Reset
	scripted          []Fault   // as configured, for Reset
	maxBody           int64

	faults faultSet
	calls  callLog
	cache  promptCache

	clockMu sync.Mutex
	offset  time.Duration

	directoryMu sync.Mutex
	people      *directory

	closed    chan struct{}
	closeOnce sync.Once
	pipes     pipeHost
	wires     []mount // the APIs of other providers
	openAI    *openAIWire
	messages  *messagesWire
	ollama    *ollamaWire
	claude    *claudeWire

	serviceKeys serviceKeys
}

// New makes a simulator. It does not listen anywhere: serve it with net/http, or use Transport.
func New(options Options) (*Server, error) {
	script := options.Script
	if script == nil {
		script = &Script{}
	}
	switches, err := mergeSwitches(options.Switches, script.Switches)
	if err != nil {
		return nil, err
	}
	models, err := newCatalogue(script)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256([]byte("perigee simulator\x00" + options.Seed))
	s := &Server{
		logger: options.Logger, callLevel: options.CallLevel, switches: switches, catalogue: models, signer: signer{key[:]}, seed: options.Seed,
		apiKeys: options.APIKeys, anyToken: options.AnyToken, admin: options.Admin, rotate: script.RotateRefreshTokens,
		googleTokenErrors: script.OAuthErrors == "google", realNow: options.Now, sleep: options.Sleep,
		accounts: options.Accounts, scripted: script.Faults, maxBody: maxBody, closed: make(chan struct{}),
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.realNow == nil {
		s.realNow = time.Now
	}
	if s.sleep == nil {
		s.sleep = realSleep
	}
	if s.accounts == nil {
		s.accounts = script.Accounts
	}
	if len(s.accounts) == 0 {
		s.accounts = DefaultAccounts()
	}
	if len(s.apiKeys) == 0 {
		s.apiKeys = script.Keys
	}
	s.pipes.server = s
	if s.openAI = newOpenAI(options.Profile, s.signer.key); s.openAI == nil {
		return nil, fmt.Errorf("simulator: there is no profile %q; profiles are %s", options.Profile, strings.Join(openai.Profiles(), ", "))
	}
	s.messages, s.ollama = newMessages(s.signer.key), &ollamaWire{}
	s.claude = &claudeWire{}
	s.wires = s.mounts()
	return s, s.Reset()
}

// mergeSwitches lays the switches a script names over the given ones.
func mergeSwitches(given rules.Switches, named map[string]any) (rules.Switches, error) {
	if given == (rules.Switches{}) {
		given = rules.DefaultSwitches()
	}
	if len(named) == 0 {
		return given, nil
	}
	encoded, err := json.Marshal(named)
	if err != nil {
		return given, fmt.Errorf("simulator: switches: %w", err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(encoded)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&given); err != nil {
		return given, fmt.Errorf("simulator: switches: %w", err)
	}
	for _, s := range rules.SwitchList() {
		if value, set := named[s.Name]; set && !slices.Contains(s.Values, fmt.Sprint(value)) {
			return given, fmt.Errorf("simulator: switch %s is %v, want one of %s", s.Name, value, strings.Join(s.Values, ", "))
		}
	}
	return given, nil
}

func realSleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reset forgets tokens, quota, caches, calls and clock, and brings back the faults of the script.
func (s *Server) Reset() error {
	people, err := newDirectory(s.signer.key, s.accounts, s.apiKeys)
	if err != nil {
		return err
	}
	s.directoryMu.Lock()
	s.people = people
	s.directoryMu.Unlock()
	s.clockMu.Lock()
	s.offset = 0
	s.clockMu.Unlock()
	s.faults.clear()
	s.faults.add(s.scripted...)
	s.calls.clear()
	s.cache.clear()
	s.openAI.store.Clear()
	s.messages.clear()
	s.claude.messages.clear()
	s.ollama.runners.Clear()
	return nil
}

// Advance moves the simulator's clock forward, to let tokens expire and quota windows end.
func (s *Server) Advance(d time.Duration) {
	s.clockMu.Lock()
	defer s.clockMu.Unlock()
	s.offset += d
}

// AddFaults puts further faults in force, after those there are.
func (s *Server) AddFaults(faults ...Fault) error {
	for _, fault := range faults {
		if _, known := faultKinds[fault.Do]; !known {
			return fmt.Errorf("simulator: unknown fault %q", fault.Do)
		}
	}
	s.faults.add(faults...)
	return nil
}

// Calls lists the requests seen lately, oldest first.
func (s *Server) Calls() []Call { return s.calls.list() }

// Accounts lists the configured accounts.
func (s *Server) Accounts() []Account { return append([]Account(nil), s.accounts...) }

func (s *Server) now() time.Time {
	s.clockMu.Lock()
	defer s.clockMu.Unlock()
	return s.realNow().Add(s.offset)
}

func (s *Server) directory() *directory {
	s.directoryMu.Lock()
	defer s.directoryMu.Unlock()
	return s.people
}

// Close ends hanging calls and the in-memory server behind Transport.
func (s *Server) Close() error {
	s.closeOnce.Do(func() { close(s.closed) })
	return s.pipes.close()
}

// exchange is one request on its way through the server.
type exchange struct {
	server  *Server
	people  *directory // the directory at the start, even after a Reset
	w       *statusRecorder
	r       *http.Request
	body    []byte
	call    *Call
	due     []*armedFault // faults this call has met, not yet claimed
	account *account      // after authenticate
	cut     net.Conn      // connection to be cut; nil if the answer ends normally
	key     *apiKey       // set after checkKey; nil if any key is accepted
	search  bool          // the envelope marks the request as a search
	wire    wire          // nil for the APIs of Google
	sent    int           // chunks of the answer so far
	gzip    bool          // the answer is compressed, by a fault
	packed  *gzip.Writer  // nil unless it is
	framing framing       // of a streamed answer
}

// maxBody is above the size of any client's request, images included.
const maxBody = 64 << 20

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.admin && strings.HasPrefix(r.URL.Path, adminPath) {
		s.serveAdmin(w, r)
		return
	}
	recorder := &statusRecorder{ResponseWriter: w}
	x := &exchange{server: s, people: s.directory(), w: recorder, r: r, wire: s.wireOf(r),
		call: &Call{Time: s.now(), Method: r.Method, Path: r.URL.Path, Host: r.Host, UserAgent: r.UserAgent()}}
	if alt := cmp.Or(r.URL.Query().Get("alt"), r.URL.Query().Get("$alt")); x.wire == nil && alt != "sse" {
		x.framing = framingArray
	}
	defer func() {
		if x.call.Status == 0 && !recorder.hijacked {
			x.call.Status = cmp.Or(recorder.status, http.StatusOK)
		}
		x.call.secret = ""
		s.calls.add(*x.call)
		if x.cut != nil {
			_ = x.cut.Close()
		}
		s.logger.Log(r.Context(), s.callLevel, "simulated call", "method", r.Method, "path", r.URL.Path, "account", x.call.Account,
			"model", x.call.Model, "status", x.call.Status, "rule", x.call.Rule, "fault", x.call.Fault)
	}()
	if err := x.read(); err != nil {
		x.writeError(err)
		return
	}
	x.peek()
	x.due = s.faults.pick(x.call)
	if !x.strike(stageFront, stageFront) {
		x.route()
	}
}

// read takes the whole body in. A hang notices a client that goes away only once the body is read.
func (x *exchange) read() *statusError {
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, x.server.maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return invalid("body.size", "Request payload size exceeds the limit: %d bytes.", x.server.maxBody)
	}
	if err != nil {
		return invalid("body.read", "Request body could not be read.")
	}
	x.body = body
	return nil
}

// peek looks ahead for the account and the model, without judging, so that faults can match on it.
func (x *exchange) peek() {
	path := x.r.URL.Path
	if x.wire != nil {
		x.call.Model, x.call.secret = x.wire.model(x.r, x.body), x.sentKey()
		if key := x.people.keyOf(x.call.secret); key != nil {
			x.call.Account = key.Name
		}
		if x.wire == x.server.claude {
			x.call.Account = x.people.owner(x.bearer())
		}
		return
	}
	x.call.Account = x.people.owner(x.bearer())
	if path == "/token" {
		form, _ := url.ParseQuery(string(x.body)) // which has the pairs that are valid
		x.call.Account = x.people.owner(form.Get("refresh_token"))
	}
	if p, ok := readVertexPath(path); ok {
		x.call.Model, x.call.secret = p.model, x.sentKey()
		if key := x.people.keyOf(x.call.secret); key != nil {
			x.call.Account = key.Name
		}
		return
	}
	if rest, ok := strings.CutPrefix(path, "/v1beta/models"); ok {
		x.call.Model, _, _ = strings.Cut(strings.TrimPrefix(rest, "/"), ":")
		x.call.secret = x.sentKey()
		if key := x.people.keyOf(x.call.secret); key != nil {
			x.call.Account = key.Name
		}
		return
	}
	if strings.HasPrefix(path, "/v1internal:") {
		var envelope struct {
			Model string `json:"model"`
		}
		if json.Unmarshal(x.body, &envelope) == nil {
			x.call.Model = envelope.Model
		}
	}
}

func (x *exchange) bearer() string {
	token, ok := strings.CutPrefix(x.r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return token
}

func (x *exchange) route() {
	if x.wire != nil {
		x.wire.serve(x)
		return
	}
	path := x.r.URL.Path
	if method, ok := strings.CutPrefix(path, "/v1internal:"); ok {
		x.routeInternal(method)
		return
	}
	if rest, ok := strings.CutPrefix(path, "/v1beta/models"); ok && (rest == "" || rest[0] == '/') {
		x.routeOfficial(strings.TrimPrefix(rest, "/"))
		return
	}
	if email, ok := strings.CutPrefix(path, "/v1/projects/-/serviceAccounts/"); ok {
		x.only(http.MethodPost, func() { x.impersonate(strings.TrimSuffix(email, ":generateAccessToken")) })
		return
	}
	if isVertex(path) {
		x.vertex()
		return
	}
	if rest, ok := strings.CutPrefix(path, metadataRoot); ok {
		x.only(http.MethodGet, func() { x.metadata(rest) })
		return
	}
	switch path {
	case "/":
		if x.r.Method == http.MethodHead { // how clients of Ollama find out that it runs
			break
		}
		x.only(http.MethodGet, func() {
			x.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			io.WriteString(x.w, Usage())
		})
	case "/token":
		x.only(http.MethodPost, x.token)
	case "/v1/token":
		x.only(http.MethodPost, x.exchangeToken)
	case "/o/oauth2/v2/auth":
		x.only(http.MethodGet, x.authorize)
	case "/oauth2/v1/userinfo", "/oauth2/v2/userinfo", "/oauth2/v3/userinfo":
		x.only(http.MethodGet, func() { x.userinfo(strings.Split(path, "/")[2]) })
	default:
		writeNotFoundPage(x.w)
	}
}

func (x *exchange) only(method string, serve func()) {
	if x.r.Method != method {
		x.w.Header().Set("Allow", method)
		x.writeError(refuse(http.StatusMethodNotAllowed, "UNIMPLEMENTED", "route.method", "Method not allowed."))
		return
	}
	serve()
}

// routeInternal serves the private gateway. As on the real one, a GET finds nothing.
func (x *exchange) routeInternal(method string) {
	if x.r.Method != http.MethodPost {
		writeNotFoundPage(x.w)
		return
	}
	switch method {
	case "generateContent":
		x.generateInternal(false)
	case "streamGenerateContent":
		x.generateInternal(true)
	case "countTokens":
		x.countInternal()
	case "loadCodeAssist":
		x.control(x.loadCodeAssist)
	case "onboardUser":
		x.control(x.onboardUser)
	case "fetchAvailableModels":
		x.control(x.fetchAvailableModels)
	case "fetchUserInfo":
		x.control(x.fetchUserInfo)
	case "recordCodeAssistMetrics":
		x.control(x.recordCodeAssistMetrics)
	case "retrieveUserQuota":
		x.control(x.retrieveUserQuota)
	case "retrieveUserQuotaSummary":
		x.control(x.retrieveUserQuotaSummary)
	default:
		writeNotFoundPage(x.w)
	}
}

// statusRecorder records the status for the call log.
type statusRecorder struct {
	http.ResponseWriter
	status   int
	hijacked bool
}

func (r *statusRecorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach Flush and Hijack.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

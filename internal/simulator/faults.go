package simulator

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// Fault is one thing that goes wrong, and for which calls.
type Fault struct {
	When When `yaml:"when" json:"when"`
	// Times is how often it happens; 0 means every time it matches.
	Times int `yaml:"times" json:"times,omitempty"`
	// Do names the fault; see FaultNames.
	Do string `yaml:"do" json:"do"`
	// Delay is the retry delay of a 429, the pace of slow, or the length of a hang. A hang with 0
	// lasts until the client gives up.
	Delay Duration `yaml:"delay" json:"delay,omitzero"`
	// AfterChunks is where in the stream it happens, for those that happen mid-stream.
	AfterChunks int `yaml:"after_chunks" json:"after_chunks,omitempty"`
	// Message replaces the usual text of an error.
	Message string `yaml:"message" json:"message,omitempty"`
}

// When selects the calls that a fault applies to. An empty field matches everything; text fields
// match as a part of the value ("sandbox" matches every sandbox host, "streamGenerateContent"
// every stream).
type When struct {
	Host    string     `yaml:"host" json:"host,omitempty"`
	Path    string     `yaml:"path" json:"path,omitempty"`
	Method  string     `yaml:"method" json:"method,omitempty"`   // the word after the colon, exactly: generateContent
	Account string     `yaml:"account" json:"account,omitempty"` // the email, or the name or the value of an API key
	Model   string     `yaml:"model" json:"model,omitempty"`
	Call    *CallRange `yaml:"call" json:"call,omitempty"`   // counts the calls that match the fields above
	Every   int        `yaml:"every" json:"every,omitempty"` // every n-th of them
}

// stage is the point in the order of checks where a fault strikes, so that for example a quota
// error only meets requests that would have been answered.
type stage int

const (
	stageFront    stage = iota + 1 // before anything is looked at
	stageAuth                      // where credentials and account are checked
	stageModel                     // where version and model are checked
	stageCapacity                  // after all rules of the request
	stageQuota                     // after capacity
	stageReply                     // shapes the answer itself
	stageLoad                      // where Ollama loads a model
)

// faultKinds is every fault there is, with its stage and the line that documents it.
var faultKinds = map[string]struct {
	stage stage
	about string
}{
	"hang":                 {stageFront, "no response, not even headers, for delay or until the client disconnects"},
	"reset":                {stageFront, "TCP reset, at once or after after_chunks chunks"},
	"internal_500":         {stageFront, "500 INTERNAL"},
	"unavailable_503":      {stageFront, "503 UNAVAILABLE without details"},
	"deadline_504":         {stageFront, "504 DEADLINE_EXCEEDED"},
	"bad_gateway_html":     {stageFront, "502 with an HTML page"},
	"array_error":          {stageFront, "500, with the error in an array"},
	"timeout_408":          {stageFront, "408"},
	"too_large_413":        {stageFront, "413, as for a body that is too large"},
	"unauthorized":         {stageAuth, "401 UNAUTHENTICATED"},
	"invalid_grant":        {stageAuth, "400 invalid_grant on /token, 401 elsewhere"},
	"validation_required":  {stageAuth, "403 VALIDATION_REQUIRED with a link"},
	"banned":               {stageAuth, "403 ACCOUNT_DISABLED"},
	"forbidden":            {stageAuth, "403 without details"},
	"service_disabled":     {stageAuth, "403 SERVICE_DISABLED"},
	"not_found":            {stageModel, "404 NOT_FOUND"},
	"version_too_old":      {stageModel, "404 as for an outdated client"},
	"capacity":             {stageCapacity, "503 MODEL_CAPACITY_EXHAUSTED"},
	"capacity_429":         {stageCapacity, "429 MODEL_CAPACITY_EXHAUSTED"},
	"overloaded_529":       {stageCapacity, "529"},
	"too_long":             {stageCapacity, "400, as for a prompt that exceeds the context of the model"},
	"slow_load":            {stageLoad, "loading a model of Ollama takes delay (30s); other calls do not match"},
	"rate_limit":           {stageQuota, "429 RATE_LIMIT_EXCEEDED, delay (479.417207ms)"},
	"quota_exhausted":      {stageQuota, "429 QUOTA_EXHAUSTED, delay (1h16m0.667923083s)"},
	"bare_429":             {stageQuota, "429 without details"},
	"payment_402":          {stageQuota, "402, as for an account without credit"},
	"insufficient_quota":   {stageQuota, "the credit is used up: 429 insufficient_quota without a delay, on Messages 400 (credit balance)"},
	"insufficient_credits": {stageQuota, "429 INSUFFICIENT_G1_CREDITS_BALANCE"},
	"hang_after_headers":   {stageReply, "200 and headers, then nothing for delay or until the client disconnects"},
	"error_mid_stream":     {stageReply, "an error object after after_chunks chunks"},
	"error_in_200":         {stageReply, "a normal answer that says the client version is no longer supported"},
	"empty_200":            {stageReply, "200 without candidates"},
	"late_usage":           {stageReply, "usage in an extra chunk after the finish reason"},
	"no_finish":            {stageReply, "the stream ends without a finish reason"},
	"split_utf8":           {stageReply, "chunks that end within a UTF-8 character"},
	"missing_newline":      {stageReply, "no line break after the last event"},
	"lf_only":              {stageReply, "lines end with LF (the default of all other APIs)"},
	"crlf":                 {stageReply, "lines end with CRLF (the default of Google's APIs)"},
	"duplicate_finish":     {stageReply, "the finish reason of a stream is sent twice"},
	"usage_missing":        {stageReply, "no usage"},
	"comments_only":        {stageReply, "only comments for delay (1m), then the stream"},
	"gzip":                 {stageReply, "the answer is compressed, whether the client accepts that or not"},
	"slow":                 {stageReply, "delay (50ms) between chunks"},
	"cumulative_thoughts":  {stageReply, "each thought chunk repeats the previous ones"},
	"missing_args":         {stageReply, "function calls without args"},
	"invalid_json_chunk":   {stageReply, "one line that is not JSON after after_chunks chunks"},
}

// FaultNames lists the valid values of Fault.Do.
func FaultNames() []string { return slices.Sorted(maps.Keys(faultKinds)) }

// UnmarshalYAML checks the name where the line number is still known.
func (f *Fault) UnmarshalYAML(node *yaml.Node) error {
	type plain Fault
	if node.Kind != yaml.MappingNode {
		return misread(node, "a fault is a mapping with the keys do and when, and more")
	}
	err := node.Decode((*plain)(f))
	if _, known := faultKinds[f.Do]; !known {
		unknown := misread(node, "unknown fault %q%s", f.Do, instead(f.Do, FaultNames()))
		if values, ok := errors.AsType[*yaml.TypeError](err); ok {
			unknown.Errors = append(unknown.Errors, values.Errors...)
		}
		return unknown
	}
	if err != nil {
		return err
	}
	if f.Times < 0 || f.AfterChunks < 0 || f.Delay < 0 || f.When.Every < 0 {
		return misread(node, "fault %s has a negative number", f.Do)
	}
	return nil
}

// faultSet is the faults in force with their counts.
type faultSet struct {
	mu     sync.Mutex
	faults []*armedFault
}

type armedFault struct {
	Fault
	matched int // calls that matched When, without Call and Every
	struck  int
}

func (s *faultSet) add(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fault := range faults {
		s.faults = append(s.faults, &armedFault{Fault: fault})
	}
}

func (s *faultSet) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// FaultState is a fault in force as the admin endpoint lists it.
type FaultState struct {
	Fault
	Matched int `json:"matched"`
	Struck  int `json:"struck"`
}

func (s *faultSet) list() []FaultState {
	s.mu.Lock()
	defer s.mu.Unlock()
	states := make([]FaultState, 0, len(s.faults))
	for _, fault := range s.faults {
		states = append(states, FaultState{fault.Fault, fault.matched, fault.struck})
	}
	return states
}

// pick counts the call at every fault that matches it and returns those due, in order.
func (s *faultSet) pick(call *Call) []*armedFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []*armedFault
	for _, fault := range s.faults {
		if call.Path == "/" || !fault.When.matches(call) {
			continue
		}
		fault.matched++
		n := fault.matched
		if (fault.When.Call == nil || fault.When.Call.has(n)) && (fault.When.Every == 0 || n%fault.When.Every == 0) {
			due = append(due, fault)
		}
	}
	return due
}

// claim takes one use of the fault. It returns false when all of Times are used.
func (s *faultSet) claim(fault *armedFault) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fault.Times > 0 && fault.struck >= fault.Times {
		return false
	}
	fault.struck++
	return true
}

func (w When) matches(call *Call) bool {
	_, method, _ := strings.Cut(call.Path, ":")
	return strings.Contains(call.Host, w.Host) && strings.Contains(call.Path, w.Path) &&
		(strings.Contains(call.Account, w.Account) || strings.Contains(call.secret, w.Account)) && strings.Contains(call.Model, w.Model) &&
		(w.Method == "" || w.Method == method || w.Method == call.Method)
}

// struckAt returns the fault of this call that strikes between two stages, claimed, or nil.
func (x *exchange) struckAt(from, to stage) *Fault {
	for _, fault := range x.due {
		at := faultKinds[fault.Do].stage
		if fault.Do == "reset" && fault.AfterChunks > 0 {
			at = stageReply
		}
		if at < from || at > to || !x.server.faults.claim(fault) {
			continue
		}
		x.call.Fault = fault.Do
		return &fault.Fault
	}
	return nil
}

// strike lets the faults between two stages happen; true means that the call is over.
func (x *exchange) strike(from, to stage) bool {
	fault := x.struckAt(from, to)
	if fault == nil {
		return false
	}
	switch fault.Do {
	case "hang":
		x.hang(time.Duration(fault.Delay))
	case "reset":
		x.reset()
	case "bad_gateway_html":
		x.w.Header().Set("Content-Type", "text/html; charset=UTF-8")
		x.w.WriteHeader(http.StatusBadGateway)
		fmt.Fprintf(x.w, "<!DOCTYPE html>\n<html lang=en>\n<title>Error 502 (Server Error)!!1</title>\n<p>%s\n</html>\n",
			cmp.Or(fault.Message, "The server encountered a temporary error and could not complete your request."))
	case "array_error":
		e := x.faultError(fault)
		x.call.Rule = e.Rule
		if x.wire != nil {
			p := x.wire.problem(x, e)
			p.body = slices.Concat([]byte("["), p.body, []byte("]"))
			p.write(x.w)
			break
		}
		writeJSON(x.w, e.HTTP, []any{e.body()})
	case "invalid_grant":
		x.call.Rule = "fault.invalid_grant"
		if x.r.URL.Path != "/token" {
			x.writeError(unauthenticated("fault.invalid_grant"))
			break
		}
		x.writeTokenError(http.StatusBadRequest, "invalid_grant", cmp.Or(fault.Message, revoked))
	default:
		if fault.Do == "quota_exhausted" {
			x.reportEmpty(quotaRest(time.Duration(fault.Delay)))
		}
		x.writeError(x.faultError(fault))
	}
	return true
}

// quotaRest is when a quota that a fault empties is whole again.
func quotaRest(delay time.Duration) time.Duration {
	return cmp.Or(delay, time.Hour+16*time.Minute+667923083*time.Nanosecond)
}

// reportEmpty has the quota methods report the group that was asked as used up for a while, as they
// would if the refusal were no fault. It changes nothing about which calls are answered.
func (x *exchange) reportEmpty(d time.Duration) {
	outer, err := readEnvelope(x.body)
	if x.account == nil || err != nil {
		return
	}
	now := x.server.now()
	x.people.mu.Lock()
	defer x.people.mu.Unlock()
	x.account.quota.group(quotaGroup(outer.Model, outer.cliStyle()), now).emptyUntil = now.Add(d)
}

// faultError returns the error of a fault that is a status.
func (x *exchange) faultError(fault *Fault) *statusError {
	now, model := x.server.now(), cmp.Or(x.call.Model, "unknown")
	delay := time.Duration(fault.Delay)
	rule := "fault." + fault.Do
	var e *statusError
	if isVertex(x.r.URL.Path) {
		e = vertexError(fault.Do, model)
	}
	switch kind := fault.Do + x.surface(); {
	case e != nil:
	case kind == "rate_limit on v1beta":
		e = officialExhausted(model, "PerMinute", cmp.Or(delay, 479417207*time.Nanosecond))
	case kind == "quota_exhausted on v1beta":
		e = officialExhausted(model, "PerDay", quotaRest(delay))
	case kind == "capacity on v1beta":
		e = refuse(http.StatusServiceUnavailable, "UNAVAILABLE", rule, "The model is overloaded. Please try again later.")
	default:
		e = x.privateError(fault.Do, model, now, delay, rule)
	}
	e.Rule, e.Delay, e.Custom = rule, delay, fault.Message
	e.Message = cmp.Or(fault.Message, e.Message)
	return e
}

// surface returns " on v1beta" for the official API, which has different errors in places, or "".
func (x *exchange) surface() string {
	if strings.HasPrefix(x.r.URL.Path, "/v1beta/") {
		return " on v1beta"
	}
	return ""
}

// privateError returns the error of a status fault in the form of the private gateway.
func (x *exchange) privateError(do, model string, now time.Time, delay time.Duration, rule string) *statusError {
	var e *statusError
	switch do {
	case "unauthorized":
		e = unauthenticated(rule)
	case "validation_required":
		e = validationRequired()
	case "banned":
		e = banned()
	case "forbidden":
		e = forbidden(rule)
	case "service_disabled":
		e = serviceDisabled("sim-disabled")
	case "not_found", "version_too_old":
		e = notFound(rule)
	case "capacity":
		e = noCapacity(http.StatusServiceUnavailable, "UNAVAILABLE", model, rule)
	case "capacity_429":
		e = noCapacity(http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", model, rule)
	case "overloaded_529":
		e = refuse(529, "UNAVAILABLE", rule, "The model is overloaded. Please try again later.")
	case "rate_limit":
		e = exhausted("RATE_LIMIT_EXCEEDED", model, now, cmp.Or(delay, 479417207*time.Nanosecond), rule)
	case "quota_exhausted":
		e = exhausted("QUOTA_EXHAUSTED", model, now, quotaRest(delay), rule)
	case "bare_429":
		e = bareExhausted(rule)
	case "insufficient_credits":
		e = insufficientCredits(model)
	case "unavailable_503":
		e = refuse(http.StatusServiceUnavailable, "UNAVAILABLE", rule, "The service is currently unavailable.")
	case "timeout_408":
		e = refuse(http.StatusRequestTimeout, "DEADLINE_EXCEEDED", rule, "The request took too long.")
	case "too_large_413":
		e = refuse(http.StatusRequestEntityTooLarge, "INVALID_ARGUMENT", rule, "Request payload size exceeds the limit: %d bytes.", x.server.maxBody)
	case "too_long":
		e = refuse(http.StatusBadRequest, "INVALID_ARGUMENT", rule, "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).")
	case "payment_402":
		e = refuse(http.StatusPaymentRequired, "FAILED_PRECONDITION", rule, "The account has no credit left.")
	case "insufficient_quota":
		e = refuse(http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", rule, "You exceeded your current quota, please check your plan and billing details.")
	case "deadline_504":
		e = refuse(http.StatusGatewayTimeout, "DEADLINE_EXCEEDED", rule, "Deadline expired before operation could complete.")
	default: // internal_500, array_error, error_mid_stream
		e = refuse(http.StatusInternalServerError, "INTERNAL", rule, "Internal error encountered.")
	}
	return e
}

// hang blocks for d, or until the client goes away or the server closes when d is 0; then it cuts
// the connection.
func (x *exchange) hang(d time.Duration) {
	if d > 0 {
		_ = x.server.sleep(x.r.Context(), d)
	} else {
		select {
		case <-x.r.Context().Done():
		case <-x.server.closed:
		}
	}
	x.reset()
}

// reset has the connection cut, as soon as the call is in the log, so that a TCP client sees a
// reset rather than an orderly end.
func (x *exchange) reset() {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil { // HTTP/2 or a recorder: the nearest thing there is
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	x.cut, x.w.hijacked = conn, true
}

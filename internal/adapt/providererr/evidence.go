package providererr

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"perigee/internal/lib/lazyregexp"
)

// How much of a body is read and kept. Explanations of errors are shorter, and a hostile answer can
// be any size.
const (
	maxBody    = 256 << 10
	maxText    = 32 << 10 // text that rules are matched with
	maxDetails = 16 << 10
	maxLists   = 32 // details, links of one detail and the like
	maxNesting = 6  // errors inside errors
)

// evidence holds the facts in a response about its error, independent of its format.
type evidence struct {
	status  int      // HTTP status; of an error inside a 200 the one that it names
	parsed  bool     // the body is JSON
	isError bool     // and has the shape of an error
	html    bool     // the body is a page
	quoted  bool     // the words came after other words, and may be the client's
	oauth   string   // OAuth error code
	reasons []string // of ErrorInfo details, in upper case
	message string   // the provider's words
	more    []string // words beside the message: violations, names of types
	text    string   // all words, normalized
	details []json.RawMessage
	links   []string // where an account may be verified, best source first

	// The message and the details as the provider wrote them: not trimmed, searched or redacted.
	whole    string
	original []json.RawMessage

	retryDelay, resetDelay json.RawMessage
	resetTime              string

	delay      time.Duration
	delayNamed bool // the provider named a delay, even if it is 0
}

// read takes the evidence out of a body. It never fails: a body that cannot be parsed is searched.
func read(status int, body []byte) *evidence {
	e := &evidence{}
	body = bytes.ToValidUTF8(body[:min(len(body), maxBody)], []byte("\uFFFD"))
	for _, prefix := range []string{"\ufeff", ")]}'", "data:"} {
		body = bytes.TrimPrefix(bytes.TrimSpace(body), []byte(prefix))
	}
	body = bytes.TrimSpace(body)
	switch {
	case bytes.HasPrefix(body, []byte("<")):
		e.html = true
		e.message = title(string(body))
	case json.Valid(body):
		e.parsed = true
		e.readValue(body, 0)
	default:
		e.scrape(body)
	}
	if status >= 400 || e.status == 0 {
		e.status = status
	}
	e.recognizeOAuth()
	e.text = normalize(e.message + "\n" + strings.Join(e.more, "\n"))
	return e
}

// object is a JSON object with members that are decoded one by one, so that one of the wrong type
// does not affect the other members.
type object map[string]json.RawMessage

func objectOf(raw json.RawMessage) object {
	var o object
	_ = json.Unmarshal(raw, &o) // nil when it is something else
	return o
}

// text returns the first of the members that is a string or a number.
func (o object) text(keys ...string) string {
	for _, key := range keys {
		if s := textOf(o[key]); s != "" {
			return s
		}
	}
	return ""
}

func textOf(raw json.RawMessage) string {
	var s string
	var n json.Number
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	if json.Unmarshal(raw, &n) == nil {
		return n.String()
	}
	return ""
}

func listOf(raw json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	_ = json.Unmarshal(raw, &list)
	return list[:min(len(list), maxLists)]
}

// readValue reads an error, a list that begins with one, or a text that may contain one.
func (e *evidence) readValue(raw json.RawMessage, depth int) {
	if depth > maxNesting {
		return
	}
	if list := listOf(raw); len(list) > 0 {
		e.readValue(list[0], depth+1) // only [{"error": …}] means anything
		return
	}
	o := objectOf(raw)
	if o == nil {
		e.readMessage(textOf(raw), depth)
		return
	}
	inner := o["error"]
	for _, wrapper := range []string{"data", "response"} {
		if inner == nil {
			inner = objectOf(o[wrapper])["error"]
		}
	}
	code, described := textOf(inner), o.text("error_description")
	switch {
	case inner == nil || string(inner) == "null":
	case oauthCode().MatchString(code) && (described != "" || slices.Contains(oauthCodes, code)):
		e.isError = true
		e.oauth = code
		e.readMessage(strings.TrimSuffix(code+": "+described, ": "), depth)
		return
	default:
		e.isError = true
		e.readValue(inner, depth+1)
		return
	}
	e.readStatus(o, depth)
}

var oauthCode = lazyregexp.New(`^[a-z]+(_[a-z]+)+$`)

// oauthCodes are the codes that are recognized without a description beside them.
var oauthCodes = []string{"access_denied", "admin_policy_enforced", "deleted_client", "disabled_client", "internal_failure",
	"invalid_client", "invalid_grant", "invalid_request", "invalid_scope", "invalid_token", "org_internal", "redirect_uri_mismatch",
	"restricted_client", "server_error", "temporarily_unavailable", "token_revoked", "unauthorized_client", "unsupported_grant_type"}

// readStatus reads a google.rpc.Status, or an error of Anthropic.
func (e *evidence) readStatus(o object, depth int) {
	code, err := strconv.Atoi(o.text("code"))
	if err != nil || code < 400 || code > 599 {
		code = 0
	}
	for _, key := range []string{"status", "type", "code"} {
		name := o.text(key)
		if code == 0 {
			code = statusNames[strings.ToUpper(name)]
		}
		if key == "type" && name != "" {
			e.more = append(e.more, name)
		}
	}
	if e.status == 0 {
		e.status = code
	}
	if message := o.text("message"); message != "" {
		e.isError = e.isError || depth > 0 || code != 0
		e.readMessage(message, depth)
	}
	for _, detail := range listOf(o["details"]) {
		e.original = append(e.original, detail)
		e.readDetail(detail)
	}
}

// statusNames has the HTTP statuses of errors that have a name instead of a number, as those inside
// a stream may.
var statusNames = map[string]int{
	"INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "OUT_OF_RANGE": 400, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403,
	"NOT_FOUND": 404, "ABORTED": 409, "ALREADY_EXISTS": 409, "RESOURCE_EXHAUSTED": 429, "CANCELLED": 499, "INTERNAL": 500,
	"UNKNOWN": 500, "DATA_LOSS": 500, "UNIMPLEMENTED": 501, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504,
	"INVALID_REQUEST_ERROR": 400, "AUTHENTICATION_ERROR": 401, "PERMISSION_ERROR": 403, "NOT_FOUND_ERROR": 404,
	"REQUEST_TOO_LARGE": 413, "RATE_LIMIT_ERROR": 429, "API_ERROR": 500, "OVERLOADED_ERROR": 529,
}

// readDetail reads one of the details by its members, whatever its @type.
func (e *evidence) readDetail(raw json.RawMessage) {
	o := objectOf(raw)
	if o == nil {
		return
	}
	e.keepDetail(raw)
	if reason := o.text("reason"); reason != "" {
		e.reasons = append(e.reasons, strings.ToUpper(reason))
	}
	metadata := objectOf(o["metadata"])
	e.readDelays(o)
	e.readDelays(metadata)
	if link := metadata.text("validation_url", "validationUrl"); link != "" {
		e.links = slices.Insert(e.links, 0, link)
	}
	for _, link := range listOf(o["links"]) {
		e.links = append(e.links, objectOf(link).text("url"))
	}
	for _, violation := range listOf(o["violations"]) { // of a QuotaFailure
		if strings.Contains(objectOf(violation).text("quotaId"), "PerDay") {
			e.reasons = append(e.reasons, "QUOTA_EXHAUSTED")
		}
	}
	for _, violation := range listOf(o["fieldViolations"]) {
		e.more = append(e.more, objectOf(violation).text("description"))
	}
}

func (e *evidence) readDelays(o object) {
	first := func(old json.RawMessage, keys ...string) json.RawMessage {
		for _, key := range keys {
			if old == nil {
				old = o[key]
			}
		}
		return old
	}
	e.retryDelay = first(e.retryDelay, "retryDelay", "retry_delay")
	e.resetDelay = first(e.resetDelay, "quotaResetDelay", "quota_reset_delay")
	if e.resetTime == "" {
		e.resetTime = o.text("quotaResetTimeStamp", "quotaResetTimestamp", "quota_reset_time_stamp")
	}
}

// keepDetail keeps a detail for the client, on one line and without secrets.
func (e *evidence) keepDetail(raw json.RawMessage) {
	size := len(raw)
	for _, d := range e.details {
		size += len(d)
	}
	if size > maxDetails {
		return
	}
	var line bytes.Buffer
	if bytes.Contains(raw, []byte(`\`)) {
		// An escape could hide text from redact; after encoding again only control characters are
		// escaped.
		var v any
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false)
		if decoder.Decode(&v) != nil || encoder.Encode(v) != nil {
			return
		}
	} else if json.Compact(&line, raw) != nil {
		return
	}
	clean := json.RawMessage(clean(strings.TrimSpace(line.String()), true))
	if json.Valid(clean) {
		e.details = append(e.details, clean)
	}
}

// readMessage reads a message. The provider may put the JSON error of the model's own host into it,
// with or without a text before it.
func (e *evidence) readMessage(message string, depth int) {
	e.whole = message
	message = strings.TrimSpace(message)
	if i := strings.IndexAny(message, "{["); i >= 0 && depth < maxNesting {
		if nested := json.RawMessage(message[i:]); json.Valid(nested) {
			inner := evidence{status: e.status, parsed: e.parsed}
			inner.readValue(nested, depth+1)
			if inner.isError {
				if i > 0 {
					inner.distrust()
				}
				inner.reasons, inner.more = append(e.reasons, inner.reasons...), append(e.more, inner.more...)
				inner.details, inner.whole, inner.original = e.details, e.whole, e.original
				*e = inner
				return
			}
		}
	}
	if message != "" {
		e.message = message
	}
}

// distrust keeps only the message of an error that followed other text. It may be from the model's
// host, but also a quote of the client's request, and a client must not be able to affect the state
// of an account.
func (e *evidence) distrust() {
	e.quoted = true
	e.oauth, e.reasons, e.links = "", nil, nil
	e.retryDelay, e.resetDelay, e.resetTime = nil, nil, ""
}

// scraps matches members in a text that is not complete JSON.
var scraps = lazyregexp.New(`"(reason|message|error_description|error|status|code|retryDelay|quotaResetDelay|quotaResetTimeStamp|validation_url)"\s*:\s*(?:"((?:[^"\\]|\\.)*)("?)|(\d+))`)

// scrape reads a body that is not JSON: the beginning of JSON, or plain text.
func (e *evidence) scrape(body []byte) {
	found := object{}
	for _, m := range scraps().FindAllSubmatch(body, maxLists) {
		key, closed := string(m[1]), len(m[3]) > 0 || len(m[4]) > 0
		value := slices.Concat([]byte(`"`), m[2], m[4], []byte(`"`))
		if key == "reason" {
			e.reasons = append(e.reasons, strings.ToUpper(textOf(value)))
		} else if found[key] == nil && (closed || key == "message") { // no half delays or links
			found[key] = value
		}
	}
	if len(found) == 0 && len(e.reasons) == 0 {
		e.message = string(body)
		return
	}
	if code := found.text("error"); slices.Contains(oauthCodes, code) {
		e.oauth, e.message = code, code
		found["message"] = found["error_description"]
	}
	e.readStatus(found, maxNesting)
	e.readDelays(found)
	if link := found.text("validation_url"); link != "" {
		e.links = append(e.links, link)
	}
}

// recognizeOAuth finds the code of a sign-in server that puts it in front of the message of a
// google.rpc.Status.
func (e *evidence) recognizeOAuth() {
	code, _, _ := strings.Cut(e.message, ":")
	if e.oauth == "" && !e.quoted && slices.Contains(oauthCodes, code) {
		e.oauth = code
	}
}

var titlePattern = lazyregexp.New(`(?is)<title[^>]*>(.*?)</title>`)

// title returns the title of a page.
func title(page string) string {
	if m := titlePattern().FindStringSubmatch(page); m != nil {
		return m[1]
	}
	return ""
}

// normalize makes texts comparable: lower case, single spaces, no quotes.
func normalize(text string) string {
	text = text[:min(len(text), maxText)]
	space := true // drops spaces at the start
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case strings.ContainsRune("`'\"\\‘’“”", r):
			return -1
		case unicode.IsSpace(r) || unicode.IsControl(r):
			if space {
				return -1
			}
			space = true
			return ' '
		}
		space = false
		return unicode.ToLower(r)
	}, text))
}

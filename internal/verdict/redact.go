package verdict

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	redacted = "[redacted]"
	maxShown = 500  // characters of the provider's words in a message
	maxQuote = 4096 // bytes of them that are looked at for that
	maxLink  = 4096 // the links for verification are long
)

// What is done about links to the provider's own pages. All other links are dropped.
type linkPolicy bool

const (
	wholeLinks linkPolicy = true  // clients open the link for verification that they find in the details
	shortLinks linkPolicy = false // in a sentence the parameters are noise, and may be somebody's
)

var (
	linkPattern  = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"'<>\\]*[^\s"'<>\\.,;:!?)\]}]`)
	emailPattern = regexp.MustCompile(`(?i)[a-z0-9._+-]+(?:@|%40)[a-z0-9-]+(?:\.[a-z0-9-]+)+`)
	// Credentials are known by the word before them, in a header, a query, a form or JSON in whatever state of quoting.
	schemePattern = regexp.MustCompile(`(?i)\b(bearer) +[a-z0-9._~+/=-]{6,}`)
	pairPattern   = regexp.MustCompile(`(?i)\b((?:access_?|refresh_?|id_?|auth_?)token|client_?secret|api_?key|x-goog-api-key|password|authorization|cookie)(\\*["']?\s*[=:]\s*\\*["']?)[^\s"'\\&,;}]+`)
	queryPattern  = regexp.MustCompile(`(?i)\b((?:key|token|secret|code)=)[^\s"'\\&,;}]+`)
	// The rest are known by their looks.
	wordPattern = regexp.MustCompile(`[A-Za-z0-9_-]{32,}`)
)

// redact takes out of text what the user would not want others to read: credentials, mail addresses, links that lead away.
func redact(text string, policy linkPolicy) string {
	var clean strings.Builder
	last := 0
	for _, at := range linkPattern.FindAllStringIndex(text, -1) {
		clean.WriteString(redactWords(text[last:at[0]]))
		clean.WriteString(redactLink(text[at[0]:at[1]], policy))
		last = at[1]
	}
	clean.WriteString(redactWords(text[last:]))
	return clean.String()
}

func redactWords(text string) string {
	return wordPattern.ReplaceAllStringFunc(redactPairs(text), func(word string) string {
		if looksSecret(word) {
			return redacted
		}
		return word
	})
}

// redactPairs takes out what can be told from what stands beside it.
func redactPairs(text string) string {
	text = schemePattern.ReplaceAllString(text, "$1 "+redacted)
	text = pairPattern.ReplaceAllString(text, "$1$2"+redacted)
	text = queryPattern.ReplaceAllString(text, "$1"+redacted)
	return emailPattern.ReplaceAllString(text, redacted)
}

// looksSecret tells random characters from long names, and from the ids of calls and answers, which are no secrets and are
// what a sentence about them is good for.
func looksSecret(word string) bool {
	for _, prefix := range []string{"toolu_", "call_", "msg_", "req_"} {
		if strings.HasPrefix(word, prefix) {
			return false
		}
	}
	return strings.ContainsFunc(word, unicode.IsUpper) && strings.ContainsFunc(word, unicode.IsLower) && strings.ContainsFunc(word, unicode.IsDigit)
}

func redactLink(link string, policy linkPolicy) string {
	if !trusted(link) {
		return "[link]"
	}
	if policy == wholeLinks {
		return redactPairs(link)
	}
	if i := strings.IndexAny(link, "?#"); i >= 0 {
		link = link[:i]
	}
	return redactPairs(link)
}

// lent are hosts of the provider's where anybody can put up a page, or be sent on from.
var lent = []string{"www.google.com", "google.com", "sites.google.com", "docs.google.com", "drive.google.com", "script.google.com", "groups.google.com", "translate.google.com"}

// trusted says whether a link leads to a page of the provider's own.
func trusted(link string) bool {
	if len(link) > maxLink || strings.ContainsFunc(link, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'<>\\`", r) }) {
		return false
	}
	u, err := url.Parse(link)
	if err != nil || !strings.EqualFold(u.Scheme, "https") || u.User != nil || u.Port() != "" {
		return false
	}
	host := strings.ToLower(u.Hostname())
	if slices.Contains(lent, host) {
		return false
	}
	for _, domain := range []string{".google.com", ".google.dev", ".google"} { // the last belongs to the provider as a whole
		if strings.HasSuffix(host, domain) {
			return true
		}
	}
	return false
}

// bestLink is where the account is verified: what the details call so, or the likeliest of the links in the message.
func (e *evidence) bestLink() (best string) {
	worth := 0
	for _, link := range slices.Concat(e.links, linkPattern.FindAllString(e.message, maxLists)) {
		if w := linkWorth(link); w > worth {
			best, worth = link, w
		}
	}
	return best
}

func linkWorth(link string) int {
	u, err := url.Parse(link)
	switch {
	case err != nil || !trusted(link):
		return 0
	case !strings.EqualFold(u.Hostname(), "accounts.google.com"):
		return 1
	case !strings.Contains(u.Path, "signin/continue"):
		return 2
	}
	return 3
}

// quote is the provider's words as they go into a message.
func (e *evidence) quote() string {
	fields := strings.FieldsFunc(e.message[:min(len(e.message), maxQuote)], func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	})
	if len(e.message) > maxQuote && len(fields) > 0 {
		fields = fields[:len(fields)-1] // half a secret is not known for one
	}
	words := strings.Join(fields, " ")
	words = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar { // such as those that turn the direction of writing
			return -1
		}
		return r
	}, words)
	if words = redact(words, shortLinks); words == "" {
		return unexplained(e.status)
	}
	if shown := []rune(words); len(shown) > maxShown {
		return string(shown[:maxShown]) + "…"
	}
	return words
}

func unexplained(status int) string {
	if status == 0 {
		return "it was not explained"
	}
	return "status " + strconv.Itoa(status) + ", not explained"
}

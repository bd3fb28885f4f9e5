package providererr

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"perigee/internal/lib/lazyregexp"
	"perigee/internal/lib/redact"
)

const (
	maxShown = 500  // characters of the provider's words in a message
	maxQuote = 4096 // bytes of them that are looked at for that
	maxLink  = 4096 // the links for verification are long
)

var linkPattern = lazyregexp.New(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"'<>\\]*[^\s"'<>\\.,;:!?)\]}]`)

// clean removes private data of the user from text: credentials, e-mail addresses, and links to
// other sites. Links to the provider's own pages keep their parameters only if wholeLinks is
// true: clients open the link for verification that they find in the details, but in a sentence the
// parameters are noise, and may be private.
func clean(text string, wholeLinks bool) string {
	var b strings.Builder
	last := 0
	for _, at := range linkPattern().FindAllStringIndex(text, -1) {
		b.WriteString(redact.MixedWords(cleanWords(text[last:at[0]])))
		b.WriteString(cleanLink(text[at[0]:at[1]], wholeLinks))
		last = at[1]
	}
	b.WriteString(redact.MixedWords(cleanWords(text[last:])))
	return b.String()
}

func cleanWords(text string) string {
	return redact.Emails(redact.Credentials(redact.Parameters(text)))
}

func cleanLink(link string, whole bool) string {
	if !trusted(link) {
		return "[link]"
	}
	if i := strings.IndexAny(link, "?#"); i >= 0 && !whole {
		link = link[:i]
	}
	return cleanWords(link)
}

// userPages are hosts of the provider where any user can publish a page or a redirect.
var userPages = []string{"www.google.com", "google.com", "sites.google.com", "docs.google.com", "drive.google.com", "script.google.com", "groups.google.com", "translate.google.com"}

// trusted reports whether a link leads to one of the provider's own pages.
func trusted(link string) bool {
	if len(link) > maxLink || strings.ContainsFunc(link, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'<>\\`", r) }) {
		return false
	}
	u, err := url.Parse(link)
	if err != nil || !strings.EqualFold(u.Scheme, "https") || u.User != nil || u.Port() != "" {
		return false
	}
	host := strings.ToLower(u.Hostname())
	if slices.Contains(userPages, host) {
		return false
	}
	// All of the top-level domain google belongs to the provider.
	for _, domain := range []string{".google.com", ".google.dev", ".google"} {
		if strings.HasSuffix(host, domain) {
			return true
		}
	}
	return false
}

// bestLink returns the address where the account is verified: the one in the details, or the
// likeliest of those in the message.
func (e *evidence) bestLink() (best string) {
	worth := 0
	for _, link := range slices.Concat(e.links, linkPattern().FindAllString(e.message, maxLists)) {
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

// quote returns the provider's message for our own: one line, without secrets, at most maxShown
// characters.
func (e *evidence) quote() string {
	fields := strings.FieldsFunc(e.message[:min(len(e.message), maxQuote)], func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	})
	if len(e.message) > maxQuote && len(fields) > 0 {
		fields = fields[:len(fields)-1] // half a secret is not known for one
	}
	words := strings.Join(fields, " ")
	words = strings.Map(func(r rune) rune {
		// Format characters can change the direction of writing, for example.
		if unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, words)
	switch words = clean(words, false); {
	case words == "" && e.status == 0:
		return "it was not explained"
	case words == "":
		return "status " + strconv.Itoa(e.status) + ", not explained"
	}
	if shown := []rune(words); len(shown) > maxShown {
		return beforeLink(words, len(string(shown[:maxShown]))) + "…"
	}
	return words
}

// beforeLink cuts text at end, or before the link that end is in: half a link leads elsewhere.
func beforeLink(text string, end int) string {
	for _, at := range linkPattern().FindAllStringIndex(text, -1) {
		if at[0] < end && end < at[1] {
			end = at[0]
		}
	}
	return text[:end]
}

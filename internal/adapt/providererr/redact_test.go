package providererr

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// secret looks like one and is none.
var secret = strings.Repeat("Ab3-", 10)

func TestSecretsStayOutOfErrors(t *testing.T) {
	leaks := []string{
		"Authorization: Bearer short123",
		"authorization: bearer " + secret,
		"https://cloudcode-pa.googleapis.com/v1internal:x?key=short123&alt=sse",
		"https://accounts.google.com/x?token=short123",
		"called with key=short123",
		"refresh_token=1//" + secret,
		`{\"refresh_token\": \"short123\"}`,
		`access_token: 'short123'`,
		"client_secret=short123&code=short123",
		"x-goog-api-key: short123",
		"token " + secret + " expired",
		"ya." + secret,
		"ey" + secret + "." + secret + "." + secret,
		"short123@example.com has no access",
		"https://accounts.google.com/x?Email=short123%40example.com",
		"short\u200b123@example.com",
	}
	for _, leak := range leaks {
		quoted, err := json.Marshal(leak)
		if err != nil {
			t.Fatal(err)
		}
		escaped := strings.ReplaceAll(string(quoted), "@", `\u0040`)
		bodies := []string{
			fmt.Sprintf(`{"error":{"message":%s,"details":[{"reason":"X","metadata":{"a":%s}}]}}`, quoted, quoted),
			fmt.Sprintf(`{"error":{"message":%s,"details":[{"reason":"VALIDATION_REQUIRED","metadata":{"validation_url":%s}}]}}`, escaped, escaped),
			fmt.Sprintf(`{"error":{"message":%s`, quoted),
			leak,
			"<title>" + leak + "</title>",
		}
		for _, body := range bodies {
			e := Classify(403, nil, []byte(body), now).Error
			shown := e.Message + "\n" + e.Hint
			for _, detail := range e.Details {
				shown += "\n" + string(detail)
				if !json.Valid(detail) {
					t.Errorf("%s: detail %s is broken", body, detail)
				}
			}
			if strings.Contains(shown, "short123") || strings.Contains(shown, "123@") || strings.Contains(shown, secret) {
				t.Errorf("%s: shows %s", body, shown)
			}
		}
	}
}

func TestEvidenceSurvivesRedaction(t *testing.T) {
	kept := []string{
		"messages.3: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_vrtx_01AbCdEfGhIjKlMnOpQrStUvWx",
		"Invalid value at 'request.system_instruction' (type.googleapis.com/google.internal.cloud.code.v1internal.Content), \"x\"",
		"* GenerateContentRequest.tools[0].function_declarations[0].parameters_json_schema: must not be set",
		"Permission 'cloudaicompanion.companions.generateChat' denied on resource '//cloudaicompanion.googleapis.com/projects/p1'",
		"Expected OAuth 2 access token, login cookie or other valid authentication credential.",
		"trace 0123456789abcdef0123456789abcdef",
		"see https://ai.google.dev/gemini-api/docs/thought-signatures.",
	}
	for _, text := range kept {
		if got := clean(text, false); got != text {
			t.Errorf("%s\nbecomes %s", text, got)
		}
	}
}

func TestQuoteIsOneShortLine(t *testing.T) {
	e := evidence{message: " a\r\n\tb\x00\x1b[31mc\u202ed\ufffd " + strings.Repeat("é ", 1000)}
	got := e.quote()
	if !strings.HasPrefix(got, "a b [31mcd é") || !strings.HasSuffix(got, "…") || len([]rune(got)) != maxShown+1 {
		t.Errorf("%d characters: %q", len([]rune(got)), got)
	}
}

func TestQuoteEndsBeforeHalfASecret(t *testing.T) {
	start := "so: " + strings.Repeat("key="+strings.Repeat("x", 1000)+" ", 4)
	e := evidence{message: start + strings.Repeat(" ", maxQuote-len(start)-len("ada@exam")) + "ada@example.com"}
	if got, want := e.quote(), "so:"+strings.Repeat(" key=[redacted]", 4); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestQuoteEndsBeforeHalfALink(t *testing.T) {
	const link = "https://developers.google.com/x"
	for cut := 1; cut <= len(link); cut++ {
		start := strings.Repeat("é", maxShown-cut)
		e := evidence{message: start + link + " more"}
		want := start + "…"
		if cut == len(link) {
			want = start + link + "…"
		}
		if got := e.quote(); got != want {
			t.Errorf("%d bytes of the link: %s", cut, got[len(start):])
		}
	}
}

func TestTrustedLinks(t *testing.T) {
	tests := map[string]bool{
		"https://accounts.google.com/signin/continue?x=1": true,
		"https://ACCOUNTS.google.com/":                    true,
		"https://support.google.com/accounts?p=al_alert":  true,
		"https://antigravity.google/download":             true,
		"https://ai.google.dev/x":                         true,

		"http://accounts.google.com/":                                 false,
		"javascript://accounts.google.com/%0aalert(1)":                false,
		"https://accounts.google.com.example.net/":                    false,
		"https://example.net/accounts.google.com":                     false,
		"https://notgoogle.com/":                                      false,
		"https://accounts.google.com@example.net/":                    false,
		"https://user:pass@accounts.google.com/":                      false,
		"https://accounts.google.com:8443/":                           false,
		"https://accounts.google.com\\@example.net/":                  false,
		"https://accounts.gооgle.com/":                                false, // Cyrillic
		"https://www.google.com/url?q=http://example.net":             false,
		"https://sites.google.com/view/login":                         false,
		"https://forms.gle/x":                                         false,
		"https://storage.googleapis.com/x":                            false,
		"https://accounts.google.com/\n":                              false,
		"https://accounts.google.com/`rm`":                            false,
		"//accounts.google.com/":                                      false,
		"accounts.google.com":                                         false,
		"":                                                            false,
		"https://accounts.google.com/" + strings.Repeat("a", maxLink): false,
	}
	for link, want := range tests {
		if got := trusted(link); got != want {
			t.Errorf("%q: %t", link, got)
		}
	}
}

func TestBestLink(t *testing.T) {
	const (
		learn  = "https://support.google.com/accounts?p=al_alert"
		verify = "https://accounts.google.com/signin/continue?a=b"
	)
	tests := []struct {
		name    string
		links   []string
		message string
		want    string
	}{
		{"the one of the details", []string{verify, learn}, "", verify},
		{"not the first, but the likeliest", []string{learn}, "at " + verify + ".", verify},
		{"no better one", []string{learn}, "", learn},
		{"the first of equals", []string{verify, verify + "c"}, "", verify},
		{"none that can be trusted", []string{"http://accounts.google.com/signin/continue"}, "https://example.net/signin/continue", ""},
	}
	for _, test := range tests {
		if got := (&evidence{links: test.links, message: test.message}).bestLink(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestLinkThatIsCalledSoComesFirst(t *testing.T) {
	const help, verify = "https://accounts.google.com/signin/continue?help", "https://accounts.google.com/signin/continue?verify"
	v := Classify(403, nil, fmt.Appendf(nil, `{"error":{"details":[{"links":[{"url":%q}]},{"reason":"VALIDATION_REQUIRED","metadata":{"validation_url":%q}}]}}`, help, verify), now)
	if v.Link != verify {
		t.Errorf("%s, want %s", v.Link, verify)
	}
}

// TestLinkWithTheAddressOfItsOwner: the link is in the diagnosis, and not in the error's text.
func TestLinkWithTheAddressOfItsOwner(t *testing.T) {
	const link = "https://accounts.google.com/signin/continue?Email=ada%40example.com"
	v := Classify(403, nil, fmt.Appendf(nil, `{"error":{"details":[{"reason":"VALIDATION_REQUIRED","metadata":{"validation_url":%q}}]}}`, link), now)
	if v.Link != link || strings.Contains(v.Error.Error(), "ada") || !strings.Contains(v.Error.Hint, "accounts.google.com") {
		t.Errorf("link %s, error %s", v.Link, v.Error)
	}
}

func TestDetailsHaveALimit(t *testing.T) {
	body := `{"error":{"details":[` + strings.Repeat(`{"a":"`+strings.Repeat("x", 1000)+`"},`, 30) + `{"reason":"QUOTA_EXHAUSTED"}]}}`
	v := Classify(429, nil, []byte(body), now)
	size := 0
	for _, d := range v.Error.Details {
		size += len(d)
	}
	if size == 0 || size > maxDetails || v.Kind != KindQuota {
		t.Errorf("%d bytes of details, kind %s", size, v.Kind)
	}
}

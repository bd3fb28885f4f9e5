package redact

import (
	"math/rand/v2"
	"strings"
	"testing"

	"perigee"
)

func TestRedactorReplacesSecretsInEveryForm(t *testing.T) {
	t.Parallel()
	r := New(perigee.NewSecret("laptop-key"), perigee.NewSecret("laptop-key/of+ada"), perigee.NewSecret("abc"), perigee.Secret{})
	for text, want := range map[string]string{
		"":                                "",
		"GET /v1/traces/xlaptop-keyx":     "GET /v1/traces/x[redacted]x",
		"account=laptop-key%2Fof%2Bada&a": "account=[redacted]&a",
		"laptop-key%2Fof+ada":             "[redacted]",
		"laptop-key/of+ada":               "[redacted]",
		"abc, abcd, xabc and =abc&":       "[redacted], abcd, xabc and =[redacted]&",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	var none *Redactor
	if got := none.Text("laptop-key"); got != "laptop-key" {
		t.Errorf("got %q", got)
	}
}

// A short secret in an answer is replaced where it is a word, and leaves error codes as they are.
// JSON is unescaped.
func TestBodyReplacesShortSecretsAsWords(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":"invalid_grant","error_description":"i i=i&x is not good, nor is i"}`: `{"error":"invalid_grant","error_description":"[redacted] [redacted]=[redacted]&x is not good, nor is [redacted]"}` + "\n",
		"i": "[redacted]", "": "", "iii-i": "iii-i",
	} {
		if got := string(New(perigee.NewSecret("i")).Body([]byte(body))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	long := New(perigee.NewSecret("long-enough"))
	for body, want := range map[string]string{"xlong-enoughx": "x[redacted]x", `"a\u006cong\u002denough"`: `"a[redacted]"` + "\n"} {
		if got := string(long.Body([]byte(body))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The canary is in every place where a credential was seen. No form may leave it.
func TestCredentialsAndParametersReplaceTheCanary(t *testing.T) {
	const canary = "canary123"
	for _, text := range []string{
		"Authorization: Bearer canary123", "authorization:  basic canary123", "Cookie: canary123", "x-goog-api-key: canary123",
		"refresh_token=canary123&x=1", "access_token: 'canary123'", `{"accessToken":"canary123"}`, `{\"refresh_token\": \"canary123\"}`,
		`{\\\"id_token\\\":\\\"canary123\\\"}`, "client_secret=canary123", "password=canary123", "api-key=canary123",
		`Get "https://host.example/v1?key=canary123&x=1": EOF`, "https://host.example/?api_key=canary123", "?access_key=canary123", "code=canary123",
		`token=canary123,canary123;canary123}canary123`, `secret=a\canary123`, `password: a\canary123`,
		"ya29.canary123", "1//canary123", "AIzacanary123", "GOCSPX-canary123", "sk-canary123",
		"gho_canary123", "github_pat_canary123", "xoxb-canary123", "eyJcanary123.canary123.canary123",
	} {
		if got := Credentials(Parameters(text)); strings.Contains(got, canary) {
			t.Errorf("%s becomes %s", text, got)
		}
	}
	for _, text := range []string{"admin-token: canary123", `"secret":"canary123"`, "token = canary123", "my_api_key: canary123"} {
		if got := Assignments(text); strings.Contains(got, canary) {
			t.Errorf("%s becomes %s", text, got)
		}
	}
	for _, text := range []string{
		"Expected OAuth 2 access token, login cookie or other valid authentication credential.",
		"the input token count (9) exceeds the maximum number of tokens", "limit=20&model=gemini-2.5-*", "monkey=1", "barcode=1", "invalid_token: Invalid Value",
	} {
		if got := Credentials(Parameters(text)); got != text {
			t.Errorf("%s becomes %s", text, got)
		}
	}
}

func TestWordsAndEmails(t *testing.T) {
	mixed := strings.Repeat("Ab3-", 10)
	for _, c := range []struct {
		name      string
		form      func(string) string
		text, got string
	}{
		{"mixed", MixedWords, "token " + mixed + " expired", "token [redacted] expired"},
		{"mixed, an id of a call", MixedWords, "toolu_vrtx_01AbCdEfGhIjKlMnOpQrStUvWx", "toolu_vrtx_01AbCdEfGhIjKlMnOpQrStUvWx"},
		{"mixed, a number of a trace", MixedWords, "0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"},
		{"random, hexadecimal", RandomWords, "use 0123456789abcdef0123456789abcdef", "use [redacted]"},
		{"random, base64", RandomWords, "use q8/Zk3+" + mixed, "use [redacted]"},
		{"random, a path", RandomWords, "/home/Ada/Documents/2026/antigravity-accounts.json", "/home/Ada/Documents/2026/antigravity-accounts.json"},
		{"e-mail", Emails, "ada@example.com, Email=bob%40example.com.", "[redacted], Email=[redacted]."},
	} {
		if got := c.form(c.text); got != c.got {
			t.Errorf("%s: got %q, want %q", c.name, got, c.got)
		}
	}
}

// Addresses are found as by the expression over the whole text.
func TestEmailsInRandomText(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "Z", "7", ".", "-", "+", "_", "@", "%40", "%", "40", " ", "/", ",", "é", "ſ", "\u212a", "\xff", "\n", "ada@example.com"}
	for range 20_000 {
		var text strings.Builder
		for range random.IntN(20) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		if got, want := Emails(text.String()), emails().ReplaceAllString(text.String(), Mark); got != want {
			t.Fatalf("%q becomes %q, want %q", text.String(), got, want)
		}
	}
}

// Notes and errors quote what clients have sent, and cut it. What is left of a secret is replaced,
// however much it is.
func TestSecretsThatWereCut(t *testing.T) {
	const secret = "0123456789abcdefghijklmnopqrstuvwxyz"
	r := redactorOf(secret, "another-secret")
	for n := range len(secret) + 1 {
		for _, c := range []struct{ text, want string }{
			{"dropped x_" + secret[:n] + "… and more", "dropped x_[redacted]… and more"},
			{"dropped x_" + secret[:n] + "...", "dropped x_[redacted]..."},
			{`found "` + secret[:n] + `"…`, `found "[redacted]"…`},
			{"at " + secret[:8] + "…" + secret[len(secret)-n:] + ".b", "at [redacted]…[redacted].b"},
		} {
			got := r.Clipped(c.text)
			if n < 4 {
				c.want = strings.NewReplacer("x_[redacted]", "x_"+secret[:n], `"[redacted]"`, `"`+secret[:n]+`"`, "…[redacted]", "…"+secret[len(secret)-n:]).Replace(c.want)
			}
			if got != c.want {
				t.Errorf("%q becomes %q, want %q", c.text, got, c.want)
			}
		}
	}
	for _, text := range []string{"", "…", "a text…", "... and so on", "0123456789…"[10:], "it ends with another-"} {
		if got := r.Clipped(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

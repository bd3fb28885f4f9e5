package perigee_test

import (
	"testing"

	"perigee"
)

func TestRedactorReplacesSecretsInEveryForm(t *testing.T) {
	t.Parallel()
	r := perigee.NewRedactor(perigee.NewSecret("laptop-key"), perigee.NewSecret("laptop-key/of+ada"), perigee.NewSecret("abc"), perigee.Secret{})
	for text, want := range map[string]string{
		"":                                "",
		"GET /v1/traces/xlaptop-keyx":     "GET /v1/traces/x[redacted]x",
		"account=laptop-key%2Fof%2Bada&a": "account=[redacted]&a",
		"laptop-key%2Fof+ada":             "[redacted]",
		"laptop-key/of+ada":               "[redacted]",
		"abc, abcd, xabc and =abc&":       "[redacted], abcd, xabc and =[redacted]&",
	} {
		if got := r.Redact(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	var none *perigee.Redactor
	if got := none.Redact("laptop-key"); got != "laptop-key" {
		t.Errorf("got %q", got)
	}
}

package oauth

import (
	"net/url"
	"strings"

	"perigee"
)

// pasted holds the parameters that the consent page returned.
type pasted struct {
	code   perigee.Secret
	state  string // empty if it was not pasted
	denied string // the provider's error code if there is no code
}

// parsePasted reads the address that a browser ended on, its query alone, or a bare code, with
// whatever a terminal or a chat program did to it: broken lines, quotes, angle brackets.
func parsePasted(text string) (pasted, error) {
	text = strings.Trim(strings.Join(strings.Fields(text), ""), "\"'`<>")
	if text == "" {
		return pasted{}, pasteError("nothing was pasted")
	}
	if strings.Contains(text, "code=") || strings.Contains(text, "error=") || strings.Contains(text, "://") {
		return parseAddress(text)
	}
	if decoded, err := url.PathUnescape(text); err == nil {
		text = decoded
	}
	if len(text) < 8 || len(text) > 4096 || strings.ContainsFunc(text, notInCode) {
		return pasted{}, pasteError("that is neither an address nor a code")
	}
	return pasted{code: perigee.NewSecret(text)}, nil
}

func parseAddress(text string) (pasted, error) {
	_, query, found := strings.Cut(text, "?")
	if !found {
		query = text
	}
	query, _, _ = strings.Cut(query, "#")
	values, err := url.ParseQuery(query)
	if err != nil {
		return pasted{}, pasteError("that address is damaged")
	}
	p := fromQuery(values)
	if p.code.IsZero() && p.denied == "" {
		if values.Has("redirect_uri") {
			return pasted{}, pasteError("that is the address of the sign-in page itself")
		}
		return pasted{}, pasteError("there is no code in that address")
	}
	return p, nil
}

// fromQuery reads the parameters of a callback. An error counts before a code.
func fromQuery(query url.Values) pasted {
	p := pasted{code: perigee.NewSecret(query.Get("code")), state: query.Get("state")}
	if word := query.Get("error"); word != "" {
		p.code, p.denied = perigee.Secret{}, strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r == '_' {
				return r
			}
			return -1
		}, word[:min(len(word), 40)])
		if p.denied == "" {
			p.denied = "error"
		}
	}
	return p
}

func notInCode(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("-._~/+=", r)
}

func pasteError(problem string) error {
	return perigee.Errorf(perigee.ClassInvalid, "%s", problem).
		WithHint("paste the whole address that the browser ended on; it starts with http://localhost and has code= in it")
}

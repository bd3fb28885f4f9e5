package perigee

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
)

// shortSecret is the length below which a secret is only replaced where it is a word of its own: it may be a part of many.
const shortSecret = 8

// A Redactor replaces known secrets in texts, as they are and as URLs encode them. Nil replaces nothing.
type Redactor struct{ forms []string } // longest first, so that no part of a longer secret is left

// NewRedactor returns a Redactor of these secrets.
func NewRedactor(secrets ...Secret) *Redactor {
	r := &Redactor{}
	for _, s := range secrets {
		if value := s.value; value != "" {
			r.forms = append(r.forms, value, url.QueryEscape(value), url.PathEscape(value))
		}
	}
	slices.SortFunc(r.forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	r.forms = slices.Compact(r.forms)
	return r
}

// Redact returns the text with [redacted] for each secret.
func (r *Redactor) Redact(text string) string {
	if r == nil {
		return text
	}
	for _, form := range r.forms {
		if !strings.Contains(text, form) {
			continue
		}
		if len(form) >= shortSecret {
			text = strings.ReplaceAll(text, form, redacted)
		} else {
			text = replaceWord(text, form)
		}
	}
	return text
}

// replaceWord replaces word where neither a letter nor a digit is beside it.
func replaceWord(text, word string) string {
	var b strings.Builder
	for from := 0; ; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			b.WriteString(text[from:])
			return b.String()
		}
		at += from
		end := at + len(word)
		b.WriteString(text[from:at])
		if (at > 0 && isWordByte(text[at-1])) || (end < len(text) && isWordByte(text[end])) {
			b.WriteString(word)
		} else {
			b.WriteString(redacted)
		}
		from = end
	}
}

func isWordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

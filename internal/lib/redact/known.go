package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"

	"perigee"
)

// shortSecret is the length below which a secret is only replaced where it is a word of its own: it
// may be a part of many.
const shortSecret = 8

// A Redactor replaces known secrets, plain and URL-encoded. A nil Redactor replaces nothing.
type Redactor struct {
	forms []string // longest first, so that no part of a longer secret is left
	mark  string   // in place of a secret
	index func() *index
}

// New returns a Redactor of these secrets.
func New(secrets ...perigee.Secret) *Redactor {
	r := &Redactor{mark: Mark}
	var values []string
	for _, s := range secrets {
		if value := s.Reveal(); value != "" {
			values = append(values, value)
			r.forms = append(r.forms, value, url.QueryEscape(value), url.PathEscape(value))
		}
	}
	slices.SortFunc(r.forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	r.forms = slices.Compact(r.forms)
	r.index = sync.OnceValue(func() *index { return newIndex(values) }) // most Redactors need none
	return r
}

// WithMark returns a Redactor that writes another mark in place of a secret.
func (r *Redactor) WithMark(mark string) *Redactor { return &Redactor{r.forms, mark, r.index} }

// Text returns the text with Mark for each secret.
func (r *Redactor) Text(text string) string { return r.replace(text, "") }

// Bytes is Text for bytes.
func (r *Redactor) Bytes(text []byte) []byte { return []byte(r.Text(string(text))) }

// Body returns the body of an answer with Mark for each secret. JSON is written anew, so that a
// secret is found however it was escaped. - and _ count as letters beside a short secret: the
// answer is classified afterwards, and such a secret may be a part of an error code.
func (r *Redactor) Body(body []byte) []byte {
	var value any
	if json.Unmarshal(body, &value) == nil {
		var plain bytes.Buffer
		encoder := json.NewEncoder(&plain)
		encoder.SetEscapeHTML(false)
		if encoder.Encode(value) == nil {
			body = plain.Bytes()
		}
	}
	return []byte(r.replace(string(body), "-_"))
}

func (r *Redactor) replace(text, letters string) string {
	if r == nil {
		return text
	}
	for _, form := range r.forms {
		if !strings.Contains(text, form) {
			continue
		}
		if len(form) >= shortSecret {
			text = strings.ReplaceAll(text, form, r.mark)
		} else {
			text = replaceWord(text, form, letters, r.mark)
		}
	}
	return text
}

// replaceWord replaces word where neither a letter nor a digit is beside it.
func replaceWord(text, word, letters, mark string) string {
	isLetter := func(c byte) bool {
		return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80 || strings.IndexByte(letters, c) >= 0
	}
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
		if (at > 0 && isLetter(text[at-1])) || (end < len(text) && isLetter(text[end])) {
			b.WriteString(word)
		} else {
			b.WriteString(mark)
		}
		from = end
	}
}

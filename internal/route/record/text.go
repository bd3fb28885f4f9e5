package record

import (
	"strings"

	"perigee"
	"perigee/internal/lib/redact"
)

// Bounds of texts of clients and providers in a row.
const (
	maxName = 200
	maxRead = 8192 // bytes of a text that are searched for secrets before it is cut
	maxText = 2000
)

// clean removes credentials from an error. The code that made the error should have done so; rows
// and logs are kept for a long time and do not rely on it.
func clean(text string) string {
	if !strings.ContainsAny(text, "= ") {
		return text
	}
	return redact.Credentials(redact.Parameters(text))
}

// redact replaces known secrets in the beginning of a text, which is cut off afterwards.
func (r *Recorder) redact(text string) string {
	if r.opts.Redact == nil || text == "" {
		return text
	}
	return r.opts.Redact(perigee.Clip(text, maxRead))
}

// name returns a name of a client or a provider, redacted and cut to its bound.
func (r *Recorder) name(text string) string { return perigee.Clip(r.redact(text), maxName) }

// text returns an error message, redacted and cut to its bound: providers quote requests in it.
func (r *Recorder) text(text string) string { return clean(perigee.Clip(r.redact(text), maxText)) }

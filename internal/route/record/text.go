package record

import (
	"strings"

	"perigee"
	"perigee/internal/lib/redact"
)

// Bounds of what a row has of the words of clients and providers.
const (
	maxName = 200
	maxRead = 8192 // of a text, to find secrets in it before it is cut
	maxText = 2000
)

// clean removes credentials from an error. The code that made the error should have done so; rows
// and logs are kept for long and do not rely on it.
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

// name returns a name that a client or a provider has set, without secrets and not too long.
func (r *Recorder) name(text string) string { return perigee.Clip(r.redact(text), maxName) }

// text returns an error without secrets and not too long: providers quote requests in it.
func (r *Recorder) text(text string) string { return clean(perigee.Clip(r.redact(text), maxText)) }

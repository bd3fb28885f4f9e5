package dialect

import (
	"perigee"
	"perigee/internal/lib/rawjson"
)

// ReadLogprobs reads a list of tokens with their log probabilities, in one answer or in one chunk.
// Values of another shape are left out.
func ReadLogprobs(c *rawjson.Cursor) *perigee.Logprobs {
	l := &perigee.Logprobs{}
	if c.Kind() != rawjson.Array {
		c.Skip()
		return l
	}
	for range c.Array() {
		var token perigee.Token
		var top []perigee.Token
		c.Read(nil, "token", &token.Text, "logprob", &token.Logprob, "top_logprobs", func() {
			for range c.Array() {
				var t perigee.Token
				c.Read(nil, "token", &t.Text, "logprob", &t.Logprob)
				top = append(top, t)
			}
		})
		if c.Err() != nil {
			break
		}
		l.Chosen, l.Top = append(l.Chosen, token), append(l.Top, top)
	}
	return l
}

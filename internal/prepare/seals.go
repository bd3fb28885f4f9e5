package prepare

import "perigee"

// WithoutSeals returns the prompt without any signature in its history, and without the thinking that only a
// signature could prove.
func WithoutSeals(p *perigee.Prompt) *perigee.Prompt {
	bare := *p
	bare.Contents = make([]perigee.Content, len(p.Contents))
	for i, c := range p.Contents {
		parts := make([]perigee.Part, 0, len(c.Parts))
		for _, part := range c.Parts {
			part.Signature = ""
			if !part.Thought {
				parts = append(parts, part)
			}
		}
		c.Parts = parts
		bare.Contents[i] = c
	}
	return &bare
}

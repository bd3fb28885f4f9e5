package api

import (
	"slices"

	"perigee"
	"perigee/internal/adapt"
	messages "perigee/internal/dialect/anthropic"
	"perigee/internal/lib/rawjson"
)

// withData returns a function that writes messages for Claude on Vertex AI, which reads no addresses.
// In the bytes of a Messages client, the data of images and documents takes the place of their
// addresses, if they may be fetched; otherwise the request is refused. In all other requests, they
// were fetched before.
func withData(write func(*perigee.Request) (message, error)) func(*perigee.Request) (message, error) {
	return func(req *perigee.Request) (message, error) {
		if !req.Verbatim(perigee.DialectAnthropic) {
			prompt, err := req.Prompt()
			if err == nil {
				err = adapt.RefuseAddresses(prompt)
			}
			if err != nil {
				return message{}, err
			}
			return write(req)
		}
		m, err := write(req)
		if err != nil {
			return m, err
		}
		sources := messages.Sources(rawjson.Index(req.Index), m.body[0])
		if len(sources) == 0 {
			return m, nil
		}
		parts, err := fetched(req, sources)
		if err != nil {
			return m, err
		}
		for i, s := range sources {
			m.rewrites = append(m.rewrites, rawjson.Edit{Start: s.Start, End: s.End, New: s.WithData(parts[i].Blob)})
		}
		slices.SortFunc(m.rewrites, func(a, b rawjson.Edit) int { return a.Start - b.Start })
		return m, nil
	}
}

// fetched returns the data of sources, in their order.
func fetched(req *perigee.Request, sources []messages.Source) ([]perigee.Part, error) {
	var content perigee.Content
	for _, s := range sources {
		if s.File != "" {
			return nil, perigee.Errorf(perigee.ClassInvalid, "Vertex AI has no uploaded files, such as %s", perigee.Clip(s.File, maxNamed)).
				WithHint("send the data itself, as a source of type base64")
		}
		part, err := s.Part()
		if err != nil {
			return nil, perigee.Errorf(perigee.ClassInvalid, "source.url: %v", err)
		}
		content.Parts = append(content.Parts, part)
	}
	prompt := &perigee.Prompt{Dialect: perigee.DialectAnthropic, Contents: []perigee.Content{content}}
	if req.Ready != nil {
		ready, err := req.Ready(req.WithPrompt(prompt), false)
		if err != nil {
			return nil, err
		}
		if prompt, err = ready.Prompt(); err != nil {
			return nil, err
		}
	}
	return prompt.Contents[0].Parts, adapt.RefuseAddresses(prompt)
}

package perigee

// A rule of thumb, for where no tokenizer is at hand: four bytes of text are a token, and a picture or a document is one tile.
const (
	bytesPerToken  = 4
	tokensPerMedia = 258
)

// EstimateTokens is about how many tokens texts of so many bytes and so many pictures or documents are.
func EstimateTokens(bytes, media int) int64 {
	return int64((bytes+bytesPerToken-1)/bytesPerToken) + int64(media)*tokensPerMedia
}

// EstimateBody is about how many tokens a request of the provider's own dialect has. It does not decode it, and looks at the
// beginning of each block only: one without a space or a quote in it is taken for a part of a picture or a document.
func EstimateBody(body []byte) int64 {
	const block, probe = 1 << 10, 64
	text, media, inMedia := len(body), 0, false
	for i := 0; i+block <= len(body); i += block {
		encoded := isBase64(body[i : i+probe])
		if encoded {
			text -= block
		}
		if encoded && !inMedia {
			media++
		}
		inMedia = encoded
	}
	return EstimateTokens(text, media)
}

func isBase64(data []byte) bool {
	for _, c := range data {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '/', c == '-', c == '_', c == '=':
		default:
			return false
		}
	}
	return true
}

// EstimateTokens is about how many tokens the request has.
func (r *Request) EstimateTokens() int64 {
	if r.Dialect == DialectGemini {
		return EstimateBody(r.Body) // its prompt may never be needed
	}
	if prompt, err := r.Prompt(); err == nil {
		return prompt.EstimateTokens()
	}
	return 0
}

// EstimateTokens is about how many tokens the prompt has.
func (p *Prompt) EstimateTokens() int64 {
	bytes, media := 0, 0
	var parts func(list []Part)
	parts = func(list []Part) {
		for i := range list {
			switch p := &list[i]; p.Kind {
			case PartText:
				bytes += len(p.Text)
			case PartBlob, PartFile:
				media++
			case PartCall:
				bytes += len(p.Call.Name) + len(p.Call.Args)
			case PartResponse:
				bytes += len(p.Response.Name) + len(p.Response.Response) + len(p.Response.Output)
				parts(p.Response.Media)
			}
		}
	}
	if p.System != nil {
		parts(p.System.Parts)
	}
	for i := range p.Contents {
		parts(p.Contents[i].Parts)
	}
	for _, t := range p.Tools {
		if f := t.Function; f != nil {
			bytes += len(f.Name) + len(f.Description) + len(f.Parameters)
		}
	}
	return EstimateTokens(bytes, media)
}

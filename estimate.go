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

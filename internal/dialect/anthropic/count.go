package anthropic

import (
	"strconv"

	"perigee"
)

// EncodeTokenCount writes the answer of count_tokens.
func EncodeTokenCount(count *perigee.TokenCount) []byte {
	dst := strconv.AppendInt([]byte(`{"input_tokens":`), count.Total, 10)
	return append(dst, '}')
}

// What a rule of thumb knows: four bytes of text are a token, an image is a tile of the provider's.
const (
	bytesPerToken  = 4
	tokensPerMedia = 258
)

// EstimateTokens counts a prompt by rule of thumb, where nobody can count it better.
func EstimateTokens(p *perigee.Prompt) int64 {
	bytes, media := 0, int64(0)
	parts := func(list []perigee.Part) {
		for i := range list {
			switch p := &list[i]; p.Kind {
			case perigee.PartText:
				bytes += len(p.Text)
			case perigee.PartBlob, perigee.PartFile:
				media++
			case perigee.PartCall:
				bytes += len(p.Call.Name) + len(p.Call.Args)
			case perigee.PartResponse:
				bytes += len(p.Response.Name) + len(p.Response.Response)
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
	return int64((bytes+bytesPerToken-1)/bytesPerToken) + media*tokensPerMedia
}

package adapt

import (
	"encoding/json"
	"strings"

	"perigee"
)

// resolution sets the resolution of images to the finest that any of them asks for: Google's APIs
// have one for all images of a request.
func (a *adapter) resolution(gen *perigee.Generation) {
	finest, name := perigee.Detail(""), optionName(a.prompt.Dialect, "image detail")
	visit := func(p *perigee.Part) {
		var detail perigee.Detail
		switch {
		case p.Kind == perigee.PartBlob && isImage(p.Blob.MIME):
			detail = p.Blob.Detail
		case p.Kind == perigee.PartFile && isImage(p.File.MIME):
			detail = p.File.Detail
		default:
			return
		}
		switch {
		case detail == "":
			detail = "auto"
		case detail == "original": // finer than there is
			detail = "high"
			a.notes.Mapped(name + " original to high")
		}
		if finest != "" && finest != detail {
			a.notes.Mapped(name)
		}
		if finest == "" || finest == "low" || detail == "high" {
			finest = detail
		}
	}
	for i := range a.prompt.Contents {
		for j := range a.prompt.Contents[i].Parts {
			part := &a.prompt.Contents[i].Parts[j]
			visit(part)
			if part.Kind == perigee.PartResponse && part.Response != nil {
				for k := range part.Response.Media {
					visit(&part.Response.Media[k])
				}
			}
		}
	}
	if finest == "low" || finest == "high" {
		value := json.RawMessage(`"MEDIA_RESOLUTION_` + strings.ToUpper(string(finest)) + `"`)
		gen.Extra = append(gen.Extra[:len(gen.Extra):len(gen.Extra)], perigee.Field{Name: "mediaResolution", Value: value})
	}
}

func isImage(mime string) bool { return strings.HasPrefix(mime, "image/") }

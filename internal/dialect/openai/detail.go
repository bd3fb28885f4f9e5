package openai

import "perigee"

// ReadDetail returns the detail that the image at path asks for, and notes a word that the API does
// not have.
func ReadDetail(word, path string, notes *perigee.Notes) perigee.Detail {
	switch word {
	case "", "auto", "low", "high", "original":
		return perigee.Detail(word)
	}
	notes.Dropped(path + " " + Brief(word))
	return ""
}

// SetDetail sets the detail of an image.
func SetDetail(p *perigee.Part, detail perigee.Detail) {
	switch {
	case p.Blob != nil:
		p.Blob.Detail = detail
	case p.File != nil:
		p.File.Detail = detail
	}
}

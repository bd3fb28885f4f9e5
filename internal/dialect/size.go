package dialect

import (
	"perigee"
	"perigee/internal/lib/rawjson"
)

const (
	// piecesSize is the size of a prompt from which its long texts are not copied: a copy takes
	// time and memory that count there, while pieces take time in the transport and in traces.
	piecesSize = 512 << 10
	// longText is the size of a text from which a piece refers to it.
	longText = 2 << 10
	// countedSize is the size from which escapes are counted. A buffer that turns out too small is
	// copied into a larger one, which is cheaper than counting where prompts are small, and takes
	// too much memory where they are large.
	countedSize = 2 << 20
)

// RequestSize returns the approximate size of an encoded prompt, so that it is written into one
// buffer.
func RequestSize(p *perigee.Prompt) int {
	if size := promptSize(p, measure{}); size < countedSize {
		return size
	}
	return promptSize(p, measure{exact: true})
}

// PiecesSize returns the approximate size of the buffer for a prompt that is encoded in pieces, and
// the size from which a piece refers to a text instead of copying it; 0 if all texts are copied.
func PiecesSize(p *perigee.Prompt) (size, refer int) {
	size = promptSize(p, measure{})
	if size < piecesSize {
		return size, 0
	}
	return promptSize(p, measure{refer: longText, exact: size >= countedSize}), longText
}

// A measure is how the size of a value is determined.
type measure struct {
	exact bool // escapes are counted
	refer int  // the size from which values are not copied; 0 if all are
}

// raw returns the size of a value of n bytes that needs no escapes.
func (m measure) raw(n int) int {
	if m.refer > 0 && n >= m.refer {
		return 0
	}
	return n
}

// text returns how long a text is when it is written. If escapes are not counted: they make texts of
// code about a sixteenth longer.
func (m measure) text(text string, escaped bool) int {
	switch {
	case escaped:
		return m.raw(len(text))
	case m.exact:
		return rawjson.QuotedSize(text)
	}
	return len(text) * 17 / 16
}

// promptSize returns the size of a prompt when it is written.
func promptSize(p *perigee.Prompt, m measure) int {
	size := 1024
	for i := range p.Contents {
		size += 64 + partsSize(p.Contents[i].Parts, m)
	}
	if p.System != nil {
		size += 64 + partsSize(p.System.Parts, m)
	}
	for _, t := range p.Tools {
		size += len(t.Config) + 64
		if t.Function != nil {
			size += len(t.Function.Name) + m.text(t.Function.Description, false) + len(t.Function.Parameters) + 64
		}
	}
	return size
}

func partsSize(parts []perigee.Part, m measure) int {
	size := 0
	for i := range parts {
		part := &parts[i]
		size += 64 + m.text(part.Text.Form()) + len(part.Signature)
		switch part.Kind {
		case perigee.PartBlob:
			size += m.raw(len(part.Blob.Data))
		case perigee.PartCall:
			size += m.raw(len(part.Call.Args)) + len(part.Call.Name) + len(part.Call.ID)
		case perigee.PartResponse:
			r := part.Response
			size += m.raw(len(r.Response)) + m.raw(len(r.Output)) + len(r.Name) + len(r.ID) + partsSize(r.Media, m)
		}
	}
	return size
}

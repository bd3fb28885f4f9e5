// Package completion is the answer of the simulated model in the form of no API. Package simulator
// composes it from directives and habits; the packages of the APIs turn it into a body or into the
// events of a stream.
package completion

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/big"
	"unicode/utf8"
)

// Reply is an answer before it is encoded. Equal requests get equal replies.
type Reply struct {
	Candidates []Candidate // one, or as many as the request asks for; at least one
	Model      string      // as the request named it
	Created    int64       // Unix time of the request

	// Block is the reason for which the model refuses to answer, or "". The parts are then empty.
	Block string

	Prompt int // tokens of the prompt, the cached ones included
	Cached int // tokens at the start of the prompt that an earlier request had

	Chunks int // the number of pieces of a text in a stream; 0 divides by words
	Seed   [sha256.Size]byte

	// The faults that an encoder applies.
	NoFinish        bool   // the stream ends before its finish reason
	DuplicateFinish bool   // the finish reason is sent twice
	NoUsage         bool   // no usage anywhere
	Repeated        bool   // each piece of a thought repeats the previous ones
	Usage           string // of the directive usage: "last", "every", "late" or ""
}

// A Candidate is one of the answers.
type Candidate struct {
	Parts   []Part
	Finish  string // STOP, MAX_TOKENS or SAFETY, or the value of the directive finish
	Stop    string // the stop sequence that ended the answer, or ""
	Query   string // the search that the sources are from, or ""
	Sources []Source
}

// A Part is a thought, a text, a call or an image.
type Part struct {
	Thought bool
	Text    string
	Call    *Call
	Image   *Image
}

// A Call is a call of a declared function. Args is a JSON object, or nil by the fault missing_args.
type Call struct {
	Name string
	Args json.RawMessage
}

// An Image has base64 data.
type Image struct{ MIME, Data string }

// A Source is a web page, and the bytes of the text that it supports.
type Source struct {
	URL, Title string
	Start, End int
}

// An Event is one event of a stream. With Comment, Data is the text of a comment.
type Event struct {
	Name    string // of the line "event: NAME", or ""
	Data    []byte
	Comment bool
}

// BytesPerToken is the estimate of all token counts of the simulator.
const BytesPerToken = 4

// Tokens estimates the tokens of so many bytes, rounded up.
func Tokens(bytes int) int { return (bytes + BytesPerToken - 1) / BytesPerToken }

// ID returns length letters and digits that depend only on the request and on a name.
func (r *Reply) ID(name string, length int) string {
	sum := sha256.Sum256(append([]byte(name+"\x00"), r.Seed[:]...))
	text := new(big.Int).SetBytes(sum[:]).Text(62)
	for len(text) < length {
		sum = sha256.Sum256(sum[:])
		text += new(big.Int).SetBytes(sum[:]).Text(62)
	}
	return text[:length]
}

// Pieces cuts a text for a stream.
func (r *Reply) Pieces(text string) []string {
	if r.Chunks > 0 {
		return Evenly(text, r.Chunks)
	}
	return ByWords(text)
}

// Output counts the tokens of all candidates, and those of them that are thoughts.
func (r *Reply) Output() (total, thoughts int) {
	text, thought := 0, 0
	for _, c := range r.Candidates {
		for _, p := range c.Parts {
			switch {
			case p.Thought:
				thought += len(p.Text)
			case p.Call != nil:
				text += len(p.Call.Name) + len(p.Call.Args)
			default:
				text += len(p.Text)
			}
		}
	}
	return Tokens(text) + Tokens(thought), Tokens(thought)
}

// wordsPerPiece is the number of words in a piece by default.
const wordsPerPiece = 6

// ByWords cuts after every few words; spaces stay at the end of a piece.
func ByWords(text string) []string {
	var pieces []string
	start, count := 0, 0
	for i := range len(text) {
		if text[i] != ' ' {
			continue
		}
		if count++; count == wordsPerPiece {
			pieces, start, count = append(pieces, text[start:i+1]), i+1, 0
		}
	}
	if start < len(text) || len(pieces) == 0 {
		pieces = append(pieces, text[start:])
	}
	return pieces
}

// Evenly cuts into n pieces, or as many as there are characters.
func Evenly(text string, n int) []string {
	total := utf8.RuneCountInString(text)
	n = max(min(n, total), 1)
	runes := []rune(text)
	pieces := make([]string, 0, n)
	for i := range n {
		pieces = append(pieces, string(runes[i*total/n:(i+1)*total/n]))
	}
	return pieces
}

// Name numbers a thing for ID.
func Name(kind string, n ...int) string { return fmt.Sprint(kind, n) }

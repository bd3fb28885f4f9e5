package openai

import (
	"math"

	"perigee"
	"perigee/internal/lib/rawjson"
)

// NoLogprobs is the note that log probabilities were requested and the provider sent none.
var NoLogprobs = perigee.Note{Action: perigee.NoteDropped, Subject: "logprobs"}

// WriteLogprobs writes the elements of logprobs.content.
func WriteLogprobs(w *rawjson.Writer, l *perigee.Logprobs) {
	for i, t := range l.Chosen {
		writeToken(w, t)
		w.Key("top_logprobs").Array()
		if i < len(l.Top) {
			for _, alternative := range l.Top[i] {
				writeToken(w, alternative)
				w.EndObject()
			}
		}
		w.EndArray().EndObject()
	}
}

// writeToken writes the beginning of a token's object.
func writeToken(w *rawjson.Writer, t perigee.Token) {
	if math.IsInf(t.Logprob, 0) || math.IsNaN(t.Logprob) {
		t.Logprob = -9999 // this API's value for very unlikely tokens
	}
	w.Object().Key("token").String(t.Text).Key("logprob").Float(t.Logprob, 64).Key("bytes").Array()
	for i := range len(t.Text) {
		w.Int(int64(t.Text[i]))
	}
	w.EndArray()
}

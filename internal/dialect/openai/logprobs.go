package openai

import (
	"math"
	"strconv"

	"perigee"
	"perigee/internal/rawjson"
)

// NoLogprobs says that probabilities were asked for, and none came.
var NoLogprobs = perigee.Note{Action: perigee.NoteDropped, Subject: "logprobs"}

// AppendLogprobs appends the items of logprobs.content, without brackets.
func AppendLogprobs(dst []byte, l *perigee.Logprobs) []byte {
	for i, t := range l.Chosen {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = appendToken(dst, t)
		dst = append(dst, `,"top_logprobs":[`...)
		if i < len(l.Top) {
			for j, alternative := range l.Top[i] {
				if j > 0 {
					dst = append(dst, ',')
				}
				dst = append(dst, '{')
				dst = appendToken(dst, alternative)
				dst = append(dst, '}')
			}
		}
		dst = append(dst, "]}"...)
	}
	return dst
}

func appendToken(dst []byte, t perigee.Token) []byte {
	if math.IsInf(t.Logprob, 0) || math.IsNaN(t.Logprob) {
		t.Logprob = -9999 // what this API gives for next to impossible
	}
	dst = append(dst, `"token":`...)
	dst = rawjson.AppendString(dst, t.Text)
	dst = append(dst, `,"logprob":`...)
	dst = strconv.AppendFloat(dst, t.Logprob, 'g', -1, 64)
	dst = append(dst, `,"bytes":[`...)
	for i := range len(t.Text) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(t.Text[i]), 10)
	}
	return append(dst, ']')
}

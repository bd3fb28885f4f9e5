// Package models has properties of models by name: their limits of input and output, how their
// thinking is set, their family, and the replacement for a name that is gone. Routing reads
// suffixes with it and completes lists, package adapt keeps requests within a model's limits, and
// thought signatures are separated by family.
//
// It is a table and a few rules about names. It has no upstreams: the providers' own lists
// determine which models can be called, and take precedence over the table.
package models

import (
	"strings"

	"perigee"
)

// A Family groups models that share a set of rules.
type Family string

// The families.
const (
	Claude    Family = "claude"
	Gemini    Family = "gemini-3" // 3 and newer: function calls come back with their signatures
	Gemini2   Family = "gemini-2" // 2.5 and older
	GPTOSS    Family = "gpt-oss"
	Image     Family = "image"
	Embedding Family = "embedding"
	Other     Family = ""
)

// Reasoning returns the reasoning of the models of a family, at every provider that has them. It is
// empty for families without any.
func (f Family) Reasoning() perigee.Reasoning {
	switch f {
	case Claude:
		return perigee.Reasoning{Provider: "claude", Form: perigee.ReasoningInBlocks}
	case Gemini, Gemini2, Image:
		return perigee.Reasoning{Provider: "gemini", Form: perigee.ReasoningInParts}
	}
	return perigee.Reasoning{}
}

// Sentinel is accepted in place of a thought signature of Gemini's that was lost.
const Sentinel = "skip_thought_signature_validator"

// IsSentinel reports whether a signature is one of the documented replacements for a signature of
// Gemini's.
func IsSentinel(signature string) bool {
	return signature == Sentinel || signature == "context_engineering_is_the_way_to_go"
}

// A Spec has the properties of a model. Zero limits are unknown limits.
type Spec struct {
	ID       string
	Name     string // for people
	Family   Family
	Context  int64 // tokens that fit in
	Output   int64 // tokens that can come out
	In, Out  []string
	Thinking Thinking

	// Instead is the model to ask when no upstream has this one: its successor, or its name at the
	// other source. Embedding models have none, because the vectors of two models cannot be
	// compared.
	Instead string
}

// Thinking describes how the amount of a model's thinking is set. Levels go from the least to the
// most; a model with neither levels nor budgets does not think.
type Thinking struct {
	Min, Max int64 // budgets in tokens; Max is 0 if the model takes none
	Zero     bool  // budget 0 turns thinking off
	Dynamic  bool  // budget -1 leaves it to the model
	Levels   []string
}

// Possible reports whether the model thinks.
func (t Thinking) Possible() bool { return t.Max > 0 || len(t.Levels) > 0 }

// Lookup returns the properties of exactly this model. The slices in it are shared and must not be
// changed.
func Lookup(id string) (Spec, bool) {
	i, ok := index[id]
	if !ok {
		return Spec{}, false
	}
	return table[i], true
}

// Of returns the properties of a model, or else those that Guess derives from its name.
func Of(id string) Spec {
	if spec, ok := Lookup(id); ok {
		return spec
	}
	return Guess(id)
}

// Guess derives properties from a name. A dated or otherwise longer name of a known model is taken
// for that model; for other names only the family and the ways of thinking are guessed, because a
// wrong limit is worse than none.
func Guess(id string) Spec {
	name := strings.ToLower(id)
	for i := len(name) - 1; i > 0; i-- {
		if name[i] != '-' && name[i] != '@' && name[i] != ':' {
			continue
		}
		if spec, ok := Lookup(name[:i]); ok && sameKind(spec, name[i:]) {
			spec.ID, spec.Name, spec.Instead = id, "", ""
			return spec
		}
	}
	spec := guessFamily(name)
	spec.ID = id
	return spec
}

// sameKind reports whether a longer name can be a model of the same kind: gemini-2.5-flash-image is
// not a gemini-2.5-flash.
func sameKind(spec Spec, rest string) bool {
	return spec.Family == Image || spec.Family == Embedding ||
		!strings.Contains(rest, "image") && !strings.Contains(rest, "embedding") && !isSpeech(rest) && !strings.Contains(rest, "-lite")
}

// isSpeech reports whether a name is a model for speech, which neither thinks on demand nor calls
// functions.
func isSpeech(name string) bool {
	return strings.Contains(name, "tts") || strings.Contains(name, "native-audio") || strings.Contains(name, "live")
}

func guessFamily(name string) Spec {
	pro := strings.Contains(name, "pro")
	switch {
	case strings.Contains(name, "embedding"):
		return Spec{Family: Embedding, In: text, Out: vector}
	case strings.Contains(name, "claude"):
		return Spec{Family: Claude, In: textImage, Out: text, Thinking: claudeThinking}
	case strings.Contains(name, "gpt-oss"):
		return Spec{Family: GPTOSS, In: text, Out: text}
	case strings.Contains(name, "image") || strings.Contains(name, "banana"):
		return Spec{Family: Image, In: textImage, Out: textImage}
	case !strings.HasPrefix(name, "gemini"):
		return Spec{Family: Other, In: text, Out: text}
	case generation(name) < 2:
		return Spec{Family: Gemini2, In: media, Out: text}
	case generation(name) == 2:
		spec := Spec{Family: Gemini2, In: media, Out: text}
		if strings.HasPrefix(name, "gemini-2.5") && !isSpeech(name) {
			spec.Thinking = thinking25Flash
			if pro {
				spec.Thinking = thinking25Pro
			}
		}
		return spec
	case pro:
		return Spec{Family: Gemini, In: media, Out: text, Thinking: thinking3Pro}
	}
	return Spec{Family: Gemini, In: media, Out: text, Thinking: thinking31Pro}
}

// generation reads the number after gemini-. A name without one (gemini-pro-agent,
// gemini-flash-latest) is of the newest generation.
func generation(name string) int {
	rest := strings.TrimPrefix(name, "gemini-")
	n, digits := 0, 0
	for digits < len(rest) && digits < 4 && rest[digits] >= '0' && rest[digits] <= '9' {
		n = n*10 + int(rest[digits]-'0')
		digits++
	}
	if digits == 0 {
		return newest
	}
	return n
}

const newest = 3

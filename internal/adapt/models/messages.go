package models

import (
	"slices"
	"strings"
)

// A MessagesSpec has the rules of a model at the Messages API. Claude models at Google's APIs have
// other rules; Of has these.
type MessagesSpec struct {
	ID     string
	Output int64 // the limit of output tokens; 0 if unknown

	// Adaptive, Enabled and Disabled are the legal types of thinking. A model with neither of the
	// first two does not think.
	Adaptive, Enabled, Disabled bool

	Default  bool     // thinks unless the request turns it off
	Efforts  []string // from the least to the most; nil if the model takes none
	Omits    bool     // thinking is shown only if the request asks for it
	Sampling bool     // temperature, top_p and top_k are legal
	Prefill  bool     // the last message may be the assistant's

	BlockCache bool // only blocks may have marks for the cache, and not the request
}

// Thinks reports whether the model thinks.
func (m *MessagesSpec) Thinks() bool { return m.Adaptive || m.Enabled }

// efforts is the scale of effort of the Messages API.
var efforts = []string{"low", "medium", "high", "xhigh", "max"}

// MessagesOf returns the rules of a model by its name. The name may have a date, or the prefix of a
// cloud provider. A Claude model that is not in the table is taken for a new one, except that it
// gets the sampling parameters of the request until it refuses them. Any other name is taken for a
// model of a compatible server, with the rules of the first models that think, except that it may
// think by default.
func MessagesOf(id string) MessagesSpec {
	name := strings.ToLower(id)
	if at := strings.LastIndex(name, "claude-"); at >= 0 {
		name = name[at+len("claude-"):]
	} else {
		return MessagesSpec{ID: id, Enabled: true, Disabled: true, Default: true, Sampling: true, Prefill: true}
	}
	for _, known := range messagesTable {
		if rest, ok := strings.CutPrefix(name, known.ID); ok && (rest == "" || strings.IndexByte("-@:", rest[0]) >= 0 && !isMinor(rest[1:])) {
			known.ID = id
			return known
		}
	}
	return MessagesSpec{ID: id, Adaptive: true, Disabled: true, Default: true, Efforts: efforts, Omits: true, Sampling: true}
}

// isMinor reports whether the rest of a name is a minor version and not a date.
func isMinor(rest string) bool {
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	return digits > 0 && digits < 3
}

// The rules that several models share, without their names.
var (
	messagesNewest = MessagesSpec{Output: 128000, Adaptive: true, Disabled: true, Efforts: efforts, Omits: true}
	messagesMiddle = MessagesSpec{Output: 128000, Adaptive: true, Enabled: true, Disabled: true, Efforts: []string{"low", "medium", "high", "max"}, Sampling: true}
	messagesOldest = MessagesSpec{Output: 64000, Enabled: true, Disabled: true, Sampling: true, Prefill: true}
	messagesPlain  = MessagesSpec{Output: 8192, Sampling: true, Prefill: true}
)

// messagesTable lists the models of the Messages API, without the prefix claude-.
var messagesTable = func() (list []MessagesSpec) {
	add := func(spec MessagesSpec, names ...string) {
		for _, spec.ID = range names {
			list = append(list, spec)
		}
	}
	unasked := messagesNewest
	unasked.Default = true
	always := unasked
	always.Disabled = false
	add(always, "fable-5", "mythos-5")
	add(unasked, "opus-5", "sonnet-5")
	add(messagesNewest, "opus-4-8", "opus-4-7")
	add(messagesMiddle, "opus-4-6", "sonnet-4-6")
	add(messagesOldest, "opus-4-5", "sonnet-4-5", "haiku-4-5", "sonnet-4", "3-7-sonnet")
	opus := messagesOldest
	opus.Output = 32000
	add(opus, "opus-4-1", "opus-4")
	add(messagesPlain, "3-5-sonnet", "3-5-haiku")
	plain := messagesPlain
	plain.Output = 4096
	add(plain, "3-opus", "3-sonnet", "3-haiku")
	return list
}()

// With returns the rules with the values of the provider's own list: the limit of output tokens, the
// types of thinking and the efforts. Zero and nil are unknown. A model without enabled thinking is
// taken to refuse sampling parameters and prefills.
func (m MessagesSpec) With(output int64, types, levels []string) MessagesSpec {
	if output > 0 {
		m.Output = output
	}
	if types != nil {
		m.Adaptive, m.Enabled = slices.Contains(types, "adaptive"), slices.Contains(types, "enabled")
		m.Disabled = slices.Contains(types, "disabled")
		m.Default = m.Thinks() && (m.Default || !m.Disabled)
		m.Sampling = m.Enabled || !m.Thinks()
		m.Prefill = m.Prefill && !m.Adaptive
		m.Omits = m.Omits || m.Thinks() && !m.Enabled
	}
	if levels != nil {
		m.Efforts = nil
		for _, level := range efforts {
			if slices.Contains(levels, level) {
				m.Efforts = append(m.Efforts, level)
			}
		}
	}
	return m
}

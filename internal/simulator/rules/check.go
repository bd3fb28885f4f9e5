package rules

import (
	"net/http"
	"strings"
)

// CheckEnvelope checks the root of a private-gateway body: its allow-list and the types of its
// fields. It does not check the request inside. Bodies of the official API have no envelope and
// always pass.
func CheckEnvelope(in Input) *Refusal {
	if err := CheckJSON(in.Body); err != nil {
		return RefuseJSON(err)
	}
	if in.official() {
		return nil
	}
	w := &walker{scanner: scanner{b: in.Body}, vocabulary: vocabulary{in: in}}
	if in.Method == Count {
		w.message("CountEnvelope")
	} else {
		w.message("Envelope")
	}
	refusal := refuseViolations(w.violations)
	if refusal != nil {
		refusal.Rule = strings.Replace(refusal.Rule, "request.", "envelope.", 1)
	}
	return refusal
}

// Check applies all other checks that need only the body, in the provider's order. Exactly one of
// its results is nil. It assumes that CheckEnvelope has passed and does not repeat it.
func Check(in Input) (*Parsed, *Refusal) {
	if err := CheckJSON(in.Body); err != nil {
		return nil, RefuseJSON(err)
	}
	r := read(in)
	for _, rule := range Table() {
		if rule.check == nil {
			continue
		}
		if refusal := rule.check(r); refusal != nil {
			refusal.Rule = rule.Name
			return nil, refusal
		}
	}
	return r.parsed, nil
}

// A request is a body after the front end has read it, on its way through the rules.
type request struct {
	in         Input
	root       *node
	parsed     *Parsed
	violations []violation
	extra      string
	bothCounts bool // a count request with contents and a whole request
}

// read walks the body once. The result has the declared members, and the objections to all other
// members.
func read(in Input) *request {
	w := &walker{scanner: scanner{b: in.Body}, vocabulary: vocabulary{in: in}}
	r := &request{in: in, root: &node{}}
	switch {
	case in.Surface == V1Internal:
		r.root = w.enveloped()
	case in.Method == Count:
		n := w.message("CountTokensRequest")
		r.root = &n
		if inner := n.get("generateContentRequest"); inner != nil {
			r.root, r.bothCounts = inner, n.get("contents") != nil
		}
	default:
		n := w.message("GenerateContentRequest")
		r.root = &n
	}
	r.violations, r.extra = w.violations, w.extra
	r.parsed = parse(r.root)
	return r
}

// enveloped finds the request in its envelope and reads it. A missing one reads as empty.
func (w *walker) enveloped() *node {
	outer := &scanner{b: w.b}
	var found node
	for outer.enter(); !outer.leave(); {
		key := outer.key()
		at := outer.i
		if outer.peek(); key == "request" && outer.b[outer.i] == '{' {
			w.i, w.path, w.violations, w.extra = at, []string{"request"}, nil, ""
			found = w.message("GenerateContentRequest")
			outer.i = w.i
			continue
		}
		outer.skip()
	}
	return &found
}

// refuse returns the usual answer to an invalid request.
func refuse(message string) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Code: "INVALID_ARGUMENT", Message: message}
}

// refuseViolations puts all objections into one refusal, named after the first.
func refuseViolations(violations []violation) *Refusal {
	if len(violations) == 0 {
		return nil
	}
	texts := make([]string, len(violations))
	fields := make([]any, len(violations))
	for i, v := range violations {
		texts[i] = v.text
		entry := map[string]any{"description": v.text}
		if v.path != "" {
			entry["field"] = v.path
		}
		fields[i] = entry
	}
	refusal := refuse(strings.Join(texts, "\n"))
	refusal.Rule = violations[0].rule
	refusal.Details = []any{map[string]any{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": fields}}
	return refusal
}

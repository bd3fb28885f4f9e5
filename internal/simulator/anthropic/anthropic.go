// Package anthropic is the Messages API of the simulator: which requests are legal, what the prompt
// cache charges, and how answers, streams and errors are written.
//
// It is pure: no network and no clock of its own. Keys, quota, faults and the model that answers
// belong to package simulator, which is the only caller: it runs [Check], composes an answer from
// the [Request], and writes it with [Message.Whole] or [Message.Events].
//
// [Check] first compares the body with the declared members, as the provider does, and then applies
// the rules of [Table]. Each entry of the table names the section of the interface notes that it
// comes from and has one example that passes and one that fails.
package anthropic

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A Method is the kind of a call.
type Method int

const (
	Create Method = iota // POST /v1/messages
	Count                // POST /v1/messages/count_tokens
)

// Input is one request to check.
type Input struct {
	Method  Method
	Body    []byte
	Version string   // the header anthropic-version
	Betas   []string // the values of the header anthropic-beta
	// Signer recognises the thinking and the tool calls that the simulator made.
	Signer Signer
	// Thread returns the request that a thread continues, with its answer as the last message, by the
	// ID of the answer. If Thread is nil, no thread is known.
	Thread func(id string) (body []byte, found bool)

	vertex bool // set by CheckVertex
}

// A Refusal is an error of the provider.
type Refusal struct {
	Rule    string // the entry of Table, or the part of the check, that refused; never sent
	Status  int
	Type    string // invalid_request_error and the like
	Message string
	Details map[string]any // sent if it is not nil
}

func (r *Refusal) Error() string { return r.Message }

// Body returns the JSON of the error.
func (r *Refusal) Body(requestID string) []byte {
	type inner struct {
		Type    string         `json:"type"`
		Message string         `json:"message"`
		Details map[string]any `json:"details,omitempty"`
	}
	return encode(struct {
		Type      string `json:"type"`
		Error     inner  `json:"error"`
		RequestID string `json:"request_id,omitempty"`
	}{"error", inner{r.Type, r.Message, r.Details}, requestID})
}

// NewRefusal returns an error of the provider with the type that belongs to the status.
func NewRefusal(status int, rule, format string, args ...any) *Refusal {
	return &Refusal{Rule: rule, Status: status, Type: errorType(status), Message: fmt.Sprintf(format, args...)}
}

func errorType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusConflict:
		return "conflict_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return "timeout_error"
	case statusOverloaded:
		return "overloaded_error"
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

const (
	statusOverloaded = 529
	maxBody          = 32 << 20
	maxMessages      = 100_000
)

func invalid(rule, format string, args ...any) *Refusal {
	return NewRefusal(http.StatusBadRequest, rule, format, args...)
}

// Check applies all checks that need only the request, in the provider's order. Exactly one of its
// results is nil.
func Check(in Input) (*Request, *Refusal) {
	if len(in.Body) > maxBody {
		return nil, NewRefusal(http.StatusRequestEntityTooLarge, "body.size", "Request exceeds the maximum size")
	}
	if refusal := checkVersion(in.Version); refusal != nil {
		return nil, refusal
	}
	root, refusal := in.object()
	if refusal != nil {
		return nil, refusal
	}
	w := walk{betas: in.Betas}
	schemaOf(in.Method)(&w, "", root)
	if w.refusal != nil {
		return nil, w.refusal
	}
	if root, refusal = in.continued(root); refusal != nil {
		return nil, refusal
	}
	r := read(in, root)
	for _, rule := range Table() {
		if refusal := rule.check(r); refusal != nil {
			refusal.Rule = rule.Name
			return nil, refusal
		}
	}
	return r, nil
}

// object returns the body, which must be a JSON object.
func (in Input) object() (node, *Refusal) {
	if !json.Valid(in.Body) {
		return node{}, invalid("body.json", "The request body is not valid JSON: %s", syntax(in.Body))
	}
	root := parse(in.Body)
	if root.kind() != '{' {
		return node{}, invalid("body.json", "Input should be an object")
	}
	return root, nil
}

// versions are the values of anthropic-version that clients send.
var versions = []string{"2023-01-01", "2023-06-01", "2026-10-21"}

func checkVersion(version string) *Refusal {
	switch {
	case version == "":
		return invalid("header.version", "anthropic-version: header is required")
	case !slices.Contains(versions, version):
		return invalid("header.version", "anthropic-version: %q is not a valid version", version)
	}
	return nil
}

// hasBeta reports whether one of the betas begins with prefix. The date after it is of no
// importance.
func hasBeta(betas []string, prefix string) bool {
	return slices.ContainsFunc(betas, func(b string) bool { return strings.HasPrefix(b, prefix) })
}

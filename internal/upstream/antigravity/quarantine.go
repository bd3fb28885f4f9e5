package antigravity

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strconv"
	"sync"
	"time"

	"perigee"
	"perigee/internal/adapt/models"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/lazyregexp"
)

// A quarantine records the tools with schemas that the provider refused, so that later requests
// are sent without them.
type quarantine struct {
	now func() time.Time

	mu  sync.Mutex
	bad map[schemaDigest]time.Time // end of the quarantine
}

type schemaDigest [sha256.Size]byte

const (
	quarantineTime = time.Hour
	maxQuarantine  = 1000
)

// digestOf identifies a tool and its client: a client must not lose a tool because of another
// client's request.
func digestOf(f *perigee.Function, family models.Family, key string) schemaDigest {
	h := sha256.New()
	h.Write([]byte(key + "\x00" + string(family) + "\x00" + f.Name + "\x00"))
	h.Write(f.Parameters)
	return schemaDigest(h.Sum(nil))
}

func (q *quarantine) add(f *perigee.Function, family models.Family, key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bad == nil || len(q.bad) >= maxQuarantine {
		q.bad = map[schemaDigest]time.Time{}
	}
	q.bad[digestOf(f, family, key)] = q.now().Add(quarantineTime)
}

// among returns the names of the tools that must not be sent.
func (q *quarantine) among(tools []perigee.Tool, family models.Family, key string) map[string]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.bad) == 0 {
		return nil
	}
	names := map[string]bool{}
	for i := range tools {
		if f := tools[i].Function; f != nil && !q.now().After(q.bad[digestOf(f, family, key)]) {
			names[f.Name] = true
		}
	}
	return names
}

// maxGuesses is the maximum number of tools left out, one at a time, if the provider does not name
// the tool.
const maxGuesses = 3

// culprit returns the function with the schema that the provider refuses: the one that the error
// names, or else a guess, largest schema first. A guess is tried with the client's own request,
// which the provider either refuses at no cost or answers.
func (r *recovery) culprit(v *providererr.Diagnosis) (bad *perigee.Function, guessed bool) {
	functions := r.sent()
	if i, ok := toolIndex(v.Error.Message); ok && i < len(functions) {
		return functions[i], false
	}
	functions = slices.DeleteFunc(functions, func(f *perigee.Function) bool { return slices.Contains(r.guesses, f) })
	if len(functions) == 0 || len(r.guesses) == maxGuesses {
		return nil, true
	}
	return slices.MaxFunc(functions, func(a, b *perigee.Function) int { return cmp.Compare(len(a.Parameters), len(b.Parameters)) }), true
}

// sent returns the functions in the order in which the provider received them: each name once, and
// no function without a name.
func (r *recovery) sent() (functions []*perigee.Function) {
	seen := map[string]bool{"": true}
	for i := range r.prompt.Tools {
		f := r.prompt.Tools[i].Function
		if f == nil || seen[f.Name] || r.options.WithoutTools[f.Name] {
			continue
		}
		seen[f.Name] = true
		functions = append(functions, f)
	}
	return functions
}

// toolIndexes matches the ways in which the provider names a tool.
var toolIndexes = lazyregexp.New(`(?:tools\.(\d+)\.(?:custom|input_schema)|function_?[dD]eclarations\[(\d+)\])`)

func toolIndex(message string) (int, bool) {
	m := toolIndexes().FindStringSubmatch(message)
	if m == nil {
		return 0, false
	}
	i, err := strconv.Atoi(m[1] + m[2])
	return i, err == nil
}

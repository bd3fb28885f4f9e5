package antigravity

import (
	"context"
	"crypto/sha256"
	"regexp"
	"strconv"
	"sync"
	"time"

	"perigee"
	"perigee/internal/account"
	"perigee/internal/models"
	"perigee/internal/prepare"
	"perigee/internal/upstream/wire"
	"perigee/internal/verdict"
)

// A quarantine remembers the tools whose schemas the provider refused, so that not every request has to find out again.
type quarantine struct {
	now func() time.Time

	mu  sync.Mutex
	bad map[schemaDigest]time.Time // until when
}

type schemaDigest [sha256.Size]byte

const (
	quarantineTime = time.Hour
	maxQuarantine  = 1000
)

// digestOf tells tools apart, and who sends them: nobody loses a tool because of what another has made the provider refuse.
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

// among returns the names of the tools that are not to be sent.
func (q *quarantine) among(tools []perigee.Tool, family models.Family, key string) map[string]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.bad) == 0 {
		return nil
	}
	var names map[string]bool
	now := q.now()
	for i := range tools {
		f := tools[i].Function
		if f == nil {
			continue
		}
		digest := digestOf(f, family, key)
		until, found := q.bad[digest]
		switch {
		case !found:
			continue
		case now.After(until):
			delete(q.bad, digest)
			continue
		}
		if names == nil {
			names = map[string]bool{}
		}
		names[f.Name] = true
	}
	return names
}

// culprit finds the function whose schema the provider refuses: by what it says, or else by asking with fewer and
// fewer of them.
func (r *recovery) culprit(ctx context.Context, v *verdict.Verdict) *perigee.Function {
	functions := r.sent()
	if len(functions) == 0 {
		return nil
	}
	if i, ok := toolIndex(v.Error.Message); ok && i < len(functions) {
		return functions[i]
	}
	for len(functions) > 1 {
		half := functions[:len(functions)/2]
		refused, known := r.probe(ctx, half)
		if !known {
			return nil
		}
		if refused {
			functions = half
		} else {
			functions = functions[len(half):]
		}
	}
	return functions[0]
}

// sent returns the functions in the order in which the provider got them: each name once, and none without.
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

// toolIndexes are the ways in which the provider says which tool it means.
var toolIndexes = regexp.MustCompile(`(?:tools\.(\d+)\.(?:custom|input_schema)|function_?[dD]eclarations\[(\d+)\])`)

func toolIndex(message string) (int, bool) {
	m := toolIndexes.FindStringSubmatch(message)
	if m == nil {
		return 0, false
	}
	i, err := strconv.Atoi(m[1] + m[2])
	return i, err == nil
}

// probe asks with some of the tools whether their schemas are refused. It asks for one word, and does not wait for it.
func (r *recovery) probe(ctx context.Context, functions []*perigee.Function) (refused, known bool) {
	c := r.call
	one := int64(1)
	p := &perigee.Prompt{
		Contents:   []perigee.Content{{Role: perigee.RoleUser, Parts: []perigee.Part{{Kind: perigee.PartText, Text: "Say yes."}}}},
		Generation: perigee.Generation{MaxOutputTokens: &one},
	}
	for _, f := range functions {
		p.Tools = append(p.Tools, perigee.Tool{Function: f})
	}
	options := r.options
	request := encode(prepare.ForAntigravity(p, c.spec, options).Prompt, "")
	loan, err := c.upstream.opts.Accounts.Borrow(c.want()).Next(ctx)
	if err != nil {
		return false, false
	}
	v := c.probeWith(ctx, loan, request)
	loan.Done(v)
	switch {
	case v == nil:
		return false, true
	case v.Kind == verdict.KindSchemaKeyword:
		return true, true
	}
	return false, false
}

func (c *call) probeWith(ctx context.Context, loan account.Loan, request []byte) *verdict.Verdict {
	token, err := loan.Token(ctx)
	if err != nil {
		return c.failed(ctx, err)
	}
	hosts := c.upstream.hosts.content(loan.CLI())
	if len(hosts) == 0 {
		return c.failed(ctx, perigee.Errorf(perigee.ClassInternal, "no endpoints"))
	}
	if c.attempts++; c.attempts > maxAttempts {
		return tooOften(nil)
	}
	before, behind := envelope{
		project: loan.Project(), model: c.req.Model, kind: requestType(c.spec), requestID: requestID(c.req.ID, c.attempts), cli: loan.CLI(),
	}.around()
	body := wire.NewBody(before, request, behind)
	defer body.Wait()
	ctx, dog := wire.Watch(ctx, c.upstream.opts.FirstByte)
	defer dog.Stop()
	resp, v := c.upstream.post(ctx, hosts[0], streamMethod, token, body)
	if v == nil {
		resp.Body.Close()
	}
	return v
}

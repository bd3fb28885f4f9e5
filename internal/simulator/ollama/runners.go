package ollama

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Defaults of the server.
const (
	defaultContext   = 4096
	defaultKeepAlive = 5 * time.Minute
	visionContext    = 2048 // the least of a model that sees
)

// Runners are the models in memory. The zero value is ready; all methods may be used concurrently.
type Runners struct {
	mu     sync.Mutex
	loaded map[string]runner
}

type runner struct {
	model   Model
	options string // the request's, for which it was loaded
	context int
	expires time.Time
}

// Clear unloads all models.
func (r *Runners) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loaded = nil
}

// use makes the model available with the options, and returns the context that it has, and whether
// it was loaded for it. Any change of the options that concern loading loads the model anew, also
// one to a shorter context.
func (r *Runners) use(m Model, o options, keepAlive *Duration, now time.Time) (context int, loaded bool) {
	length := defaultKeepAlive
	if keepAlive != nil {
		length = time.Duration(*keepAlive)
	}
	context = max(o.context, 4)
	if m.can("vision") {
		context = max(context, visionContext)
	}
	next := runner{model: m, context: min(context, m.Context), options: fmt.Sprintf("num_ctx=%d %s", context, o.runner), expires: now.Add(length)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded == nil {
		r.loaded = map[string]runner{}
	}
	old, found := r.loaded[m.Name]
	r.loaded[m.Name] = next
	return next.context, !found || old.options != next.options || !now.Before(old.expires)
}

// unload removes a model from memory.
func (r *Runners) unload(m Model) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.loaded, m.Name)
}

// Running is the answer of /api/ps: the models in memory, the one that stays longest first.
func (r *Runners) Running(now time.Time) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []Listed{}
	for _, each := range r.loaded {
		if !now.Before(each.expires) {
			continue
		}
		entry := each.model.listed()
		entry.Expires, entry.Context = &each.expires, each.context
		entry.Size += int64(each.context) * 128 << 10
		entry.VRAM = entry.Size
		list = append(list, entry)
	}
	slices.SortFunc(list, func(a, b Listed) int {
		if order := b.Expires.Compare(*a.Expires); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	return map[string]any{"models": list}
}

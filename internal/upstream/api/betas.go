package api

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"perigee"
	messages "perigee/internal/dialect/anthropic"
	"perigee/internal/lib/lazyregexp"
	"perigee/internal/lib/rawjson"
)

// betaHeader has the betas of a request to the Messages API.
const betaHeader = "Anthropic-Beta"

// A beta is a part of the Messages API that a request has to ask for by name.
type beta struct {
	prefix   string   // of its names, which end in a date
	members  []string // of the body, as paths from the top
	turns    []string // members of messages
	blocks   []string // types of blocks, of which some are followed by a name
	mark     string   // a member of marks for the cache
	tool     string   // the beginning of the types of its tools
	noVertex bool     // Vertex AI does not have it
}

// betas are the known betas that have members or tools of their own, or that Vertex AI does not have.
var betas = []beta{
	{prefix: "advisor-tool-", blocks: []string{"server_tool_use advisor", "advisor_tool_result"}, tool: "advisor_", noVertex: true},
	{prefix: "code-execution-", members: []string{"container"}, tool: "code_execution_", noVertex: true},
	{prefix: "compact-", members: []string{"compaction"}},
	{prefix: "context-management-", members: []string{"context_management"}},
	{prefix: "fallback-credit-", members: []string{"fallback_credit_token"}, noVertex: true},
	{prefix: "files-api-", noVertex: true},
	{prefix: "mcp-client-", members: []string{"mcp_servers"}, blocks: []string{"mcp_tool_use", "mcp_tool_result"}, tool: "mcp_toolset", noVertex: true},
	{prefix: "message-batches-", noVertex: true},
	{prefix: "message-threads-", members: []string{"thread"}},
	{prefix: "mid-conversation-output-config-", turns: []string{"output_config"}},
	{prefix: "mid-conversation-system-clear-at-", turns: []string{"clear_at"}},
	{prefix: "prompt-caching-scope-", mark: "scope"},
	{prefix: "request-tags-", members: []string{"tags"}, noVertex: true},
	{prefix: "server-side-fallback-", members: []string{"fallbacks"}, blocks: []string{"fallback"}, noVertex: true},
	{prefix: "skills-", members: []string{"container"}, noVertex: true},
	{prefix: "structured-outputs-", members: []string{"output_format"}},
	{prefix: "task-budgets-", members: []string{"output_config.task_budget"}},
	{prefix: "thinking-binding-controls-", members: []string{"thinking.block_binding"}},
	{prefix: "web-fetch-", tool: "web_fetch_", noVertex: true},
}

// betaOf returns what is known of a beta.
func betaOf(name string) (b beta) {
	if i := slices.IndexFunc(betas, func(b beta) bool { return strings.HasPrefix(name, b.prefix) }); i >= 0 {
		b = betas[i]
	}
	return b
}

// A betaFilter removes betas that Vertex AI refuses from the requests of Messages clients, with their
// members and tools. It learns from refusals. Its methods may be called concurrently.
type betaFilter struct {
	mu      sync.Mutex
	refused map[betaUse][]string // the members that were refused after the beta was removed
}

// A betaUse is where a beta is used. Models differ in the betas that they have, and so do answers and
// counts.
type betaUse struct {
	beta, model string
	count       bool
}

const (
	maxBetaUses    = 1024 // that are remembered
	maxBetaMembers = 16   // of each
)

// split returns the betas of a request that are sent, and those that are not.
func (f *betaFilter) split(req *perigee.Request, count bool) (kept, dropped []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range betasOf(req) {
		if _, refused := f.refused[betaUse{name, req.Model, count}]; refused || betaOf(name).noVertex {
			dropped = append(dropped, name)
		} else {
			kept = append(kept, name)
		}
	}
	return kept, dropped
}

// betasOf returns the betas of a client's request.
func betasOf(req *perigee.Request) (names []string) {
	for _, line := range req.Header.Values(betaHeader) {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// learn remembers betas that were refused by name, or members that were refused without them.
func (f *betaFilter) learn(req *perigee.Request, count bool, names []string, members ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		use := betaUse{strings.Clone(name), req.Model, count}
		known, found := f.refused[use]
		switch {
		case len(name)+len(req.Model) > 2*maxNamed:
			continue
		case f.refused == nil, !found && len(f.refused) >= maxBetaUses:
			f.refused = map[betaUse][]string{}
		}
		for _, member := range members {
			if !slices.Contains(known, member) && len(known) < maxBetaMembers && len(member) <= maxNamed {
				known = append(slices.Clip(known), strings.Clone(member))
			}
		}
		f.refused[use] = known
	}
}

// membersOf returns the paths of the members that belong to removed betas, and not to one that stays.
func (f *betaFilter) membersOf(req *perigee.Request, count bool, kept, dropped []string) (paths []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range dropped {
		paths = slices.Concat(paths, betaOf(name).members, f.refused[betaUse{name, req.Model, count}])
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		return slices.ContainsFunc(kept, func(name string) bool { return slices.Contains(betaOf(name).members, path) })
	})
}

// apply removes refused betas from a message with the client's bytes. more has paths of members that
// are removed with them.
func (f *betaFilter) apply(req *perigee.Request, m *message, count bool, more ...string) error {
	kept, dropped := f.split(req, count)
	if len(dropped) == 0 {
		return nil
	}
	m.header = http.Header{betaHeader: nil}
	if len(kept) > 0 {
		m.header.Set(betaHeader, strings.Join(kept, ","))
	}
	var notes perigee.Notes
	for _, name := range dropped {
		notes.Dropped("beta " + perigee.Clip(name, maxNamed))
	}
	for _, name := range dropped {
		b := betaOf(name)
		m.dropFromMessages(b.turns, b.blocks, &notes)
		m.dropFromMarks(b.mark, &notes)
		m.dropTools(b.tool, &notes)
	}
	if err := req.RefuseIfStrict(notes.List()); err != nil {
		return err
	}
	m.notes = slices.Concat(m.notes, notes.List())
	for _, path := range append(f.membersOf(req, count, kept, dropped), more...) {
		add(&m.edits, path, false, change{drop: true})
	}
	return nil
}

// revise adds the edits that find returns for the body. Earlier edits are made before, because both
// may be of the same lists.
func (m *message) revise(find func(body []byte) []rawjson.Edit) {
	edits := find(m.body[0])
	if len(edits) > 0 && len(m.rewrites) > 0 {
		m.body = [][]byte{rawjson.Splice(m.body[0], m.rewrites...)}
		edits, m.rewrites = find(m.body[0]), nil
	}
	m.rewrites = append(m.rewrites, edits...)
}

// dropFromMessages removes members and blocks of messages.
func (m *message) dropFromMessages(members, types []string, notes *perigee.Notes) {
	m.revise(func(body []byte) []rawjson.Edit {
		edits, removed := messages.RemoveFromMessages(body, members, types)
		for _, part := range removed {
			notes.Dropped(part)
		}
		return edits
	})
}

// dropFromMarks removes a member of marks for the cache.
func (m *message) dropFromMarks(member string, notes *perigee.Notes) {
	if member == "" {
		return
	}
	m.revise(func(body []byte) []rawjson.Edit {
		edits := messages.RemoveFromMarks(body, member)
		if len(edits) > 0 {
			notes.Dropped("cache_control." + member)
		}
		return edits
	})
}

// dropTools removes the tools with types that begin with a prefix. Without any tool, there is no
// choice of one either.
func (m *message) dropTools(prefix string, notes *perigee.Notes) {
	if prefix == "" {
		return
	}
	none := false
	m.revise(func(body []byte) []rawjson.Edit {
		edits, types, kept := messages.RemoveTools(body, prefix)
		for _, kind := range types {
			notes.Dropped("tool " + perigee.Clip(kind, maxNamed))
		}
		none = len(types) > 0 && !kept
		return edits
	})
	if none {
		add(&m.edits, "tools", false, change{drop: true, quiet: true})
		add(&m.edits, "tool_choice", false, change{drop: true})
	}
}

var (
	// unexpectedBetas matches the error about betas, with their names in backquotes.
	unexpectedBetas = lazyregexp.New("(?i)Unexpected value\\(s\\) (.+) for the `anthropic-beta` header")
	// extraMember matches the error about a member of the body.
	extraMember = lazyregexp.New(`^([a-z0-9_]+(?:\.[a-z_]+)*): Extra inputs are not permitted`)
)

// needed are the members of requests that belong to no beta. They are not removed, whatever a refusal
// names.
var needed = []string{"anthropic_version", "max_tokens", "messages", "model", "stop_sequences", "stream", "system", "temperature", "thinking",
	"tool_choice", "tools", "top_k", "top_p"}

// use makes the messages of a method without refused betas, and makes them again after a refusal. A
// refused beta is removed once, and then a member that is refused without it.
func (f *betaFilter) use(asked *func(*perigee.Request) (message, error), repair *repairer, count bool) {
	write, otherwise := *asked, *repair
	of := func(req *perigee.Request, more ...string) (message, error) {
		m, err := write(req)
		if err == nil && req.Verbatim(perigee.DialectAnthropic) {
			err = f.apply(req, &m, count, more...)
		}
		return m, err
	}
	*asked = func(req *perigee.Request) (message, error) { return of(req) }

	other := func(req *perigee.Request, sent *message, refused error) (m message, ok bool) {
		if otherwise != nil {
			m, ok = otherwise(req, sent, refused)
			m.header = sent.header
		}
		return m, ok
	}
	withoutMember := func(req *perigee.Request, sent *message, refused error) (m message, ok bool) {
		path := submatch(extraMember(), perigee.AsError(refused).Message)
		_, dropped := f.split(req, count)
		if sent.header == nil || path == "" || len(dropped) == 0 || slices.Contains(needed, path) {
			return other(req, sent, refused)
		}
		m, err := of(req, path)
		m.anew, m.repair = true, other
		m.learns = func() { f.learn(req, count, dropped, path) }
		return m, err == nil
	}
	*repair = func(req *perigee.Request, sent *message, refused error) (m message, ok bool) {
		e := perigee.AsError(refused)
		if e.Status != http.StatusBadRequest || !req.Verbatim(perigee.DialectAnthropic) {
			return other(req, sent, refused)
		}
		names := betasOf(req)
		list := submatch(unexpectedBetas(), e.Message)
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(list, "`"+name+"`") })
		if len(names) == 0 {
			return withoutMember(req, sent, refused)
		}
		f.learn(req, count, names)
		m, err := of(req)
		m.anew, m.repair = true, withoutMember
		return m, err == nil
	}
}

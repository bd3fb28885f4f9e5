package headless

import (
	"context"
	"slices"
	"strings"

	"perigee/internal/langserver/lsclient"
	"perigee/internal/mcp/ask"
)

// askSource is the source named in answers of a language server.
const askSource = "langserver"

// newAgent returns the agent of a language server that perigee runs. It works in the directory of
// the language server only, and changes files only if the configuration allows that.
func newAgent(opts Options, server *Server) *ask.Agent {
	return ask.NewAgent(server.client, ask.AgentOptions{
		Source: askSource, Upstream: opts.Upstream.Name, Workspaces: []string{server.workspace()}, Track: true,
		Models:   &lsclient.Catalogue{Client: server.client, Cloud: opts.Models},
		ReadOnly: !slices.Contains(opts.Upstream.Allow, "edit"), Logger: opts.Logger,
	})
}

// Ask returns the answer of the language server's agent. The process is not restarted while Ask
// runs. If the language server is not ready, Ask waits for it.
func (u *Upstream) Ask(ctx context.Context, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
	err := u.server.Wait(ctx)
	if err == nil {
		err = u.server.signInFor(ctx, r.Model)
	}
	if err != nil {
		return ask.Answer{}, ask.Decline(err)
	}
	defer u.server.Begin()()
	return u.agent.Ask(ctx, r, progress)
}

// Has reports whether the language server has a conversation.
func (u *Upstream) Has(ctx context.Context, conversation string) (bool, error) {
	if strings.HasPrefix(conversation, ask.ModelConversation) || u.server.Wait(ctx) != nil {
		return false, ctx.Err()
	}
	return u.agent.Has(ctx, conversation)
}

// Ask returns the answer of the IDE's agent.
func (a *Attached) Ask(ctx context.Context, r ask.Request, progress func(ask.Progress)) (ask.Answer, error) {
	if err := a.wait(ctx); err != nil {
		return ask.Answer{}, ask.Decline(err)
	}
	return a.agent.Ask(ctx, r, progress)
}

// Has reports whether the language server of the IDE has a conversation.
func (a *Attached) Has(ctx context.Context, conversation string) (bool, error) {
	if strings.HasPrefix(conversation, ask.ModelConversation) || a.wait(ctx) != nil {
		return false, nil
	}
	return a.agent.Has(ctx, conversation)
}

// Ask returns an error: there is no language server.
func (n NotRunning) Ask(context.Context, ask.Request, func(ask.Progress)) (ask.Answer, error) {
	return ask.Answer{}, ask.Decline(n.err())
}

// Has returns false.
func (n NotRunning) Has(context.Context, string) (bool, error) { return false, nil }

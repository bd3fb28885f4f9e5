package mcpserver

//lint:file-ignore SA1019 clients of versions before 2026-07-28 have roots

import (
	"context"
	"net/url"
	"runtime"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// followRoots sets the handlers that request a client's roots.
func followRoots(o *mcp.ServerOptions) {
	o.InitializedHandler = func(ctx context.Context, r *mcp.InitializedRequest) { requestRoots(ctx, r.Session) }
	o.RootsListChangedHandler = rootsChanged
}

// roots are the answer of a client to the request for its roots.
type roots struct {
	done chan struct{} // closed when the other fields are set
	dirs []string      // empty if the client has named none, or has not answered
	// the call that requested them was cancelled before the client could answer
	cancelled bool
}

// requestRoots requests the roots of a client on stdio. Over HTTP they are requested when a tool
// needs them, because only the stream of a call is sure to reach the client.
func requestRoots(ctx context.Context, client *mcp.ServerSession) {
	if session := sessionOf(ctx); session != nil && session.stdio {
		go session.clientRoots(session.ctx, client)
	}
}

// rootsChanged drops the roots of a client.
func rootsChanged(ctx context.Context, r *mcp.RootsListChangedRequest) {
	session := sessionOf(ctx)
	if session == nil {
		return
	}
	session.mu.Lock()
	session.roots = nil
	session.mu.Unlock()
	requestRoots(ctx, r.Session)
}

// clientRoots returns the directories that the client works in. It requests them once, and again
// after they have changed. A client that does not answer within rootsTimeout has none.
func (s *session) clientRoots(ctx context.Context, client *mcp.ServerSession) []string {
	p := client.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.RootsV2 == nil || p.ProtocolVersion >= stateless {
		return nil
	}
	s.mu.Lock()
	for s.roots != nil {
		asked := s.roots
		s.mu.Unlock()
		select {
		case <-asked.done:
			if !asked.cancelled {
				return asked.dirs
			}
		case <-ctx.Done():
			return nil
		}
		s.mu.Lock()
	}
	r := &roots{done: make(chan struct{})}
	s.roots = r
	s.mu.Unlock()

	defer close(r.done)
	asking, cancel := context.WithTimeout(ctx, rootsTimeout)
	defer cancel()
	list, err := client.ListRoots(asking, nil)
	if err != nil {
		s.mu.Lock()
		if r.cancelled = ctx.Err() != nil; r.cancelled && s.roots == r {
			s.roots = nil
		}
		s.mu.Unlock()
		return nil
	}
	for _, root := range list.Roots {
		if dir, ok := fileURI(root.URI); ok {
			r.dirs = append(r.dirs, dir)
		}
	}
	return r.dirs
}

// fileURI returns the path of a file URI.
func fileURI(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || !strings.EqualFold(u.Scheme, "file") || u.Host != "" && u.Host != "localhost" || u.Path == "" {
		return "", false
	}
	if runtime.GOOS == "windows" {
		return strings.TrimPrefix(u.Path, "/"), true
	}
	return u.Path, true
}

package mcpserver

import (
	"context"
	"io"
	"time"
)

// abortTime is how long a connection may take to end after its calls were cancelled.
const abortTime = 5 * time.Second

// ServeStdio serves one client: each line of in is a message of the client, each line of out a
// message of the server. The caller is trusted, unless ctx has one. It returns nil at the end of
// in, after open calls were cancelled, and after Close; and the cause of ctx when ctx ends first.
// A read of in that is under way is not interrupted, nor is a write to a client that does not
// read. A line that is not a message is answered with an error and skipped.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	caller, ok := ctx.Value(callerKey).(Caller)
	if !ok {
		caller = Caller{Trusted: true}
	}
	session := newSession(s, caller)
	session.stdio = true
	defer session.cancel(errSessionEnded)

	conn := newLineConn(in, out, func() { session.cancel(errSessionEnded) })
	// The session must not end with ctx at once: calls are cancelled first.
	server, err := s.mcp().Connect(withSession(context.WithoutCancel(ctx), session), conn, nil)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	select {
	case err = <-ended:
		return err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-s.ctx.Done():
	}
	session.cancel(errSessionEnded)
	conn.Abort()
	select {
	case <-ended:
	case <-time.After(abortTime): // a write to a client that does not read
	}
	return err
}

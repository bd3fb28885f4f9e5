package mitm

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// upgrade answers a request that changes the protocol, such as to WebSocket, and forwards bytes in
// both directions.
func (f *forwarder) upgrade(w http.ResponseWriter, r *http.Request, resp *http.Response) {
	server, ok := resp.Body.(io.ReadWriteCloser)
	asked, got := upgradeOf(r.Header), upgradeOf(resp.Header)
	if !ok || !strings.EqualFold(asked, got) {
		f.fail(w, r, errors.New("the server changes to a protocol that was not asked for"))
		return
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		f.fail(w, r, err)
		return
	}
	end := func() { _, _ = server.Close(), client.Close() }
	defer end()
	resp.Body = nil // Write sends the head only
	delete(resp.Header, "Alt-Svc")
	if resp.Write(buffered) != nil || buffered.Flush() != nil {
		return
	}
	done := make(chan bool, 2) // true if the other direction continues
	go func() { done <- forwardBytes(client, server) }()
	go func() { done <- forwardBytes(server, buffered.Reader) }()
	if <-done {
		// One side has ended; the other one may never end.
		defer time.AfterFunc(f.opts.Silence, end).Stop()
		<-done
	}
}

// forwardBytes copies until the end of src and closes the write side of dst. It reports whether
// that is possible, so that the other direction continues.
func forwardBytes(dst io.Writer, src io.Reader) bool {
	if _, err := io.Copy(dst, src); err != nil {
		return false
	}
	return closeWrite(dst) == nil
}

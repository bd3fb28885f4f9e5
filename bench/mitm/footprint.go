//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A footprint is what is left in each proxy after work: memory after many calls, and files after
// cancelled streams.
type footprint struct {
	protocol string
	left     map[string]remains
}

type remains struct {
	start, one, many int64 // resident bytes after the start, calls one after the other, and then calls of many clients
	files            int   // descriptors more than before the streams
	held             int   // streams that the server still has
}

func (f *footprint) name() string { return f.protocol + " memory and cancelled streams" }

const (
	manyClients = 128
	leftLimit   = 10 * time.Second // within which cancelled streams have to be gone
)

func (f *footprint) measure(ctx context.Context, b *bench) error {
	f.left = map[string]remains{}
	for _, p := range b.proxies {
		var left remains
		for _, look := range []func(context.Context, *bench, *target) error{left.weigh, left.cancel} {
			t, err := b.launch(ctx, p, f.protocol) // idle connections of one would hide files that the other leaves open
			if err != nil {
				return err
			}
			err = look(ctx, b, t)
			t.process.Stop()
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		f.left[p.name] = left
	}
	b.report.footprints = append(b.report.footprints, f)
	return nil
}

// weigh reads the memory of a proxy before and after calls.
func (r *remains) weigh(ctx context.Context, b *bench, t *target) (err error) {
	if r.start, err = t.process.Memory("VmRSS"); err != nil {
		return err
	}
	if r.one, err = t.memoryAfter(ctx, 1, b.plan.calls); err != nil {
		return err
	}
	r.many, err = t.memoryAfter(ctx, manyClients, b.plan.calls)
	return err
}

// cancel counts what cancelled streams leave behind.
func (r *remains) cancel(ctx context.Context, b *bench, t *target) (err error) {
	r.files, r.held, err = t.cancelStreams(ctx, b.plan.cancels, b.directly(t.protocol))
	return err
}

func (t *target) memoryAfter(ctx context.Context, clients, calls int) (int64, error) {
	crowd, err := t.crowd(ctx, clients)
	if err != nil {
		return 0, err
	}
	defer crowd.close()
	if _, err := crowd.callFor(ctx, time.Hour, calls); err != nil {
		return 0, err
	}
	return t.process.Memory("VmRSS")
}

// cancelStreams opens streams, reads an event of each and cancels them: in HTTP/1.1 by closing
// their connections, in HTTP/2 on a connection that stays open. It returns how many files and
// streams are left.
func (t *target) cancelStreams(ctx context.Context, n int, server *target) (files, held int, err error) {
	observer, err := server.crowd(ctx, 1)
	if err != nil {
		return 0, 0, err
	}
	defer observer.close()
	keep, err := t.crowd(ctx, 1) // its connections are among those before
	if err != nil {
		return 0, 0, err
	}
	defer keep.close()
	before, err := t.settledFiles(ctx)
	if err != nil {
		return 0, 0, err
	}
	errs := make(chan error, n)
	places := make(chan struct{}, 50)
	var group sync.WaitGroup
	for range n {
		places <- struct{}{}
		group.Go(func() {
			errs <- t.cancelOne(ctx, keep[0])
			<-places
		})
	}
	group.Wait()
	for range n {
		if err := <-errs; err != nil {
			return 0, 0, err
		}
	}
	for until := time.Now().Add(leftLimit); ; {
		open, err := t.process.Files()
		if err != nil {
			return 0, 0, err
		}
		if held, err = askHeld(ctx, observer[0]); err != nil {
			return 0, 0, err
		}
		files = max(0, open-before)
		if files == 0 && held == 0 || time.Now().After(until) {
			return files, held, nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return 0, 0, err
		}
	}
}

// settledFiles counts files when their number has not changed for a while: connections of the step
// before may still close.
func (t *target) settledFiles(ctx context.Context) (int, error) {
	last, same := -1, 0
	for range 100 {
		n, err := t.process.Files()
		if err != nil {
			return 0, err
		}
		if same++; n != last {
			last, same = n, 0
		}
		if same == 10 {
			break
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return last, nil
}

func (t *target) cancelOne(ctx context.Context, shared *client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := shared
	if t.protocol == http1 {
		c = &client{route: &t.route}
		if err := c.connect(ctx); err != nil {
			return err
		}
		defer c.conn.Close()
	}
	resp, err := c.do(ctx, http.MethodGet, quietPath, nil)
	if err != nil {
		return err
	}
	if t.protocol == http2 {
		defer resp.Body.Close() // in HTTP/1.1 this would wait for the end of the stream
	}
	_, err = resp.Body.Read(make([]byte, 1<<10))
	return err
}

func askHeld(ctx context.Context, c *client) (int, error) {
	resp, err := c.do(ctx, http.MethodGet, heldPath, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package discover

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/langserver/lsclient"
)

// A port for another protocol may never answer. It is waited for only as long as a port is missing,
// and for two seconds.
func TestVerifyDoesNotWaitForSilentPorts(t *testing.T) {
	const plain, secure, silent = 1, 2, 3
	for _, c := range []struct {
		ports []int
		want  lsclient.Endpoint
		took  time.Duration
	}{
		{[]int{silent, plain, secure}, lsclient.Endpoint{HTTP: plain, HTTPS: secure}, time.Second},
		{[]int{silent, plain}, lsclient.Endpoint{HTTP: plain}, 2 * time.Second},
		{[]int{plain}, lsclient.Endpoint{HTTP: plain}, time.Second},
		{[]int{silent}, lsclient.Endpoint{}, 2 * time.Second},
		{nil, lsclient.Endpoint{}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			found, ok := Prospect{limit: 2 * time.Second}.verify(t.Context(), c.ports, func(ctx context.Context, e lsclient.Endpoint) error {
				if e.Port() == silent {
					<-ctx.Done()
					return ctx.Err()
				}
				time.Sleep(time.Second)
				if e.HTTP != plain && e.HTTPS != secure {
					return errors.New("another protocol")
				}
				return nil
			})
			if took := time.Since(begun); ok != (c.want != lsclient.Endpoint{}) || found.Endpoint != c.want || took != c.took {
				t.Errorf("%v: %t, %+v after %v", c.ports, ok, found.Endpoint, took)
			}
		})
	}
}

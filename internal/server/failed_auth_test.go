package server_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"perigee"
	"perigee/internal/server"
)

// An authRig is a server with one key, and its log.
type authRig struct {
	api *server.Server
	mu  sync.Mutex
	log bytes.Buffer
}

func (d *authRig) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(p)
}

// logged returns how many lines the log has, and the sum of the numbers in them.
func (d *authRig) logged() (lines, requests int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, found := range regexp.MustCompile(`requests=(\d+)`).FindAllStringSubmatch(d.log.String(), -1) {
		n, _ := strconv.Atoi(found[1])
		requests += n
	}
	return strings.Count(d.log.String(), "\n"), requests
}

// newAuthRig builds one inside a bubble.
func newAuthRig(t *testing.T) *authRig {
	d := &authRig{}
	upstream := script(func(_ context.Context, yield func(perigee.Event, error) bool) {
		_ = yield(begin, nil) && yield(frame, nil) && yield(end, nil)
	})
	d.api = server.New(server.Options{Upstream: upstream, Logger: slog.New(slog.NewTextHandler(d, nil)),
		Admin: func(offer string) (bool, error) { return offer == "of-the-owner", nil }},
		server.Settings{MaxBody: 1 << 20, Keys: []server.Key{{Name: "laptop", Secret: perigee.NewSecret("good")}}})
	t.Cleanup(d.api.Close)
	return d
}

// knock asks with a key, from an address, in a bubble, and returns the answer and how long it took.
func (d *authRig) knock(method, path, key, address string) (*httptest.ResponseRecorder, time.Duration) {
	r := httptest.NewRequest(method, path, strings.NewReader(`{"contents":[]}`))
	r.RemoteAddr = address
	r.Header.Set("Authorization", "Bearer "+key)
	w, start := httptest.NewRecorder(), time.Now()
	d.api.ServeHTTP(w, r)
	return w, time.Since(start)
}

const generate = "/v1beta/models/m:generateContent"

func TestWrongKeysAreSlowedDown(t *testing.T) {
	for name, ways := range map[string][2]string{
		"model": {http.MethodPost, generate}, "nothing": {http.MethodGet, "/nowhere"},
		"admin token": {http.MethodGet, "/v1/accounts"}, "socket": {http.MethodGet, "/v1/responses"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newAuthRig(t)
				expect := func(key, address string, status int, after time.Duration) {
					t.Helper()
					if w, took := d.knock(ways[0], ways[1], key, address); w.Code != status || took != after {
						t.Errorf("%s from %s: %d after %v, want %d after %v", key, address, w.Code, took, status, after)
					}
				}
				const here, elsewhere = "127.0.0.1:1000", "127.0.0.2:1000"
				for i := range 10 {
					expect("bad", fmt.Sprintf("127.0.0.1:%d", 2000+i), http.StatusUnauthorized, 0)
				}
				expect("bad", here, http.StatusUnauthorized, time.Second)
				expect("", here, http.StatusUnauthorized, time.Second)
				expect("bad", elsewhere, http.StatusUnauthorized, 0)
				if w, took := d.knock(http.MethodPost, generate, "good", here); w.Code != http.StatusOK || took != 0 {
					t.Errorf("the right key: %d after %v", w.Code, took)
				}
				if w, took := d.knock(http.MethodGet, "/v1/status", "of-the-owner", here); w.Code == http.StatusUnauthorized || took != 0 {
					t.Errorf("the right token: %d after %v", w.Code, took)
				}
				time.Sleep(time.Minute)
				expect("bad", here, http.StatusUnauthorized, 0)
			})
		})
	}
}

// Only a few answers wait at the same time: further ones are refused at once, and their connections
// are closed.
func TestFewAnswersToWrongKeysWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newAuthRig(t)
		for range 10 {
			d.knock(http.MethodPost, generate, "bad", "127.0.0.1:1")
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		waited, refused := 0, 0
		for range 100 {
			all.Go(func() {
				w, took := d.knock(http.MethodPost, generate, "bad", "127.0.0.1:1")
				mu.Lock()
				defer mu.Unlock()
				switch {
				case w.Code == http.StatusUnauthorized && took == time.Second:
					waited++
				case w.Code == http.StatusTooManyRequests && took == 0 && w.Header().Get("Retry-After") == "60" && w.Header().
					Get("Connection") == "close":
					refused++
				}
			})
		}
		synctest.Wait()
		if w, took := d.knock(http.MethodPost, generate, "good", "127.0.0.1:1"); w.Code != http.StatusOK || took != 0 {
			t.Errorf("the right key: %d after %v", w.Code, took)
		}
		all.Wait()
		if waited != 16 || refused != 84 {
			t.Errorf("%d waited, and %d were refused at once", waited, refused)
		}
	})
}

// An address has one line a minute, and all addresses together have a bounded number, whatever they
// send.
func TestLogOfRequestsWithoutAKeyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newAuthRig(t)
		long, start := strings.Repeat("X", 3000), time.Now()
		for range 30 {
			for range 7 {
				d.knock(long, "/"+long, "bad", "127.0.0.1:1")
			}
			time.Sleep(6 * time.Second)
		}
		time.Sleep(2 * time.Minute)
		minutes := int(time.Since(start) / time.Minute)
		if lines, requests := d.logged(); lines < 3 || lines > minutes || requests != 210 || d.log.Len() > minutes*500 {
			t.Errorf("%d lines of %d bytes in %d minutes about %d requests:\n%s", lines, d.log.Len(), minutes, requests, d.log.String())
		}
		d.log.Reset()
		for i := range 4000 {
			d.knock(http.MethodGet, "/", "bad", fmt.Sprintf("10.%d.%d.1:1", i/250, i%250)) // public
			d.knock(http.MethodGet, "/v1/usage", "bad", fmt.Sprintf("10.%d.%d.1:1", i/250, i%250))
		}
		time.Sleep(2 * time.Minute)
		if lines, requests := d.logged(); lines > 41 || requests != 4000 {
			t.Errorf("%d lines about %d requests", lines, requests)
		}
	})
}

// What a web page sends to a server without keys is bounded as well.
func TestLogOfForeignHostsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newAuthRig(t)
		d.api.Apply(server.Settings{MaxBody: 1 << 20, Loopback: true})
		for range 100 {
			if w, _ := d.knock(http.MethodPost, generate, "", "127.0.0.1:1"); w.Code != http.StatusForbidden {
				t.Fatalf("got %d", w.Code)
			}
		}
		time.Sleep(time.Minute + time.Second)
		if lines, requests := d.logged(); lines != 2 || requests != 100 {
			t.Errorf("%d lines about %d requests", lines, requests)
		}
	})
}

// A client with a whole network of IPv6 counts as one.
func TestAddressesOfOneNetworkCountTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newAuthRig(t)
		for i := range 10 {
			d.knock(http.MethodPost, generate, "bad", fmt.Sprintf("[2001:db8:0:1::%x]:1", i))
		}
		if _, took := d.knock(http.MethodPost, generate, "bad", "[2001:db8:0:1:ffff::1]:1"); took != time.Second {
			t.Errorf("the same network: after %v", took)
		}
		if _, took := d.knock(http.MethodPost, generate, "bad", "[2001:db8:0:2::1]:1"); took != 0 {
			t.Errorf("another one: after %v", took)
		}
		for range 10 {
			d.knock(http.MethodPost, generate, "bad", "[::ffff:192.0.2.1]:1")
		}
		if _, took := d.knock(http.MethodPost, generate, "bad", "192.0.2.1:1"); took != time.Second {
			t.Errorf("the same address in the form of IPv6: after %v", took)
		}
	})
}

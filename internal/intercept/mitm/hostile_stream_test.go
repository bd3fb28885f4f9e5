package mitm_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/testing/perigeetest/await"
)

// TestAnswersThatBreakOff has the server break off its answer in each way that HTTP has. The client
// gets what was sent before, and then an error: never a clean end.
func TestAnswersThatBreakOff(t *testing.T) {
	t.Parallel()
	for name, breakOff := range map[string]func(http.ResponseWriter, *http.Request){
		"reset of the connection": func(w http.ResponseWriter, req *http.Request) {
			flushed(w, "begun")
			select {
			case <-req.Context().Value(readKey{}).(chan struct{}):
			case <-req.Context().Done():
			}
			resetServerConn(req)
		},
		"handler aborted": func(w http.ResponseWriter, _ *http.Request) {
			flushed(w, "begun")
			panic(http.ErrAbortHandler)
		},
		"short of its length": func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Length", "100")
			flushed(w, "begun")
		},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, protocol string) {
				r := newHostileRig(t)
				read := make(chan struct{})
				target := r.server(func(w http.ResponseWriter, req *http.Request) {
					breakOff(w, req.WithContext(context.WithValue(req.Context(), readKey{}, read)))
				})
				resp, err := r.client(protocol).Get("https://" + target + "/")
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				begun := make([]byte, len("begun"))
				if _, err := io.ReadFull(resp.Body, begun); err != nil {
					t.Errorf("what was sent before: %q, %v", begun, err)
				}
				close(read)
				if rest, err := io.ReadAll(resp.Body); err == nil {
					t.Errorf("a clean end after %q", rest)
				}
				r.works(target)
			})
		})
	}
}

// readKey is where a request of TestAnswersThatBreakOff has the channel that is closed when the
// client has read the first bytes.
type readKey struct{}

// TestBrokenAnswers has a server send answers that are wrong at the level of bytes. The client gets
// 502, or an error after the head.
func TestBrokenAnswers(t *testing.T) {
	t.Parallel()
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n"
	for name, answer := range map[string]string{
		"nothing":                          "",
		"no HTTP":                          "SSH-2.0-OpenSSH_9.2\r\n",
		"half a status line":               "HTTP/1.1 20",
		"half a head":                      "HTTP/1.1 200 OK\r\nX: y\r\n",
		"a status of two digits":           "HTTP/1.1 20 OK\r\n\r\n",
		"two lengths":                      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy",
		"a NUL in a header":                "HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 1\r\n\r\nx",
		"short of its length":              "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun",
		"chunks without an end":            chunked,
		"a chunk without an end":           chunked + "9\r\nabc",
		"a chunk of a wrong length":        chunked + "2\r\nabc\r\n0\r\n\r\n",
		"a chunk length that is no number": chunked + "zz\r\nabc\r\n0\r\n\r\n",
		"a last chunk without an end":      chunked + "0\r\n",
		"a trailer without an end":         chunked + "0\r\nX: y\r\n",
		"an unknown encoding":              "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\nabc",
		"a switch that was not asked for":  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"100 without end":                  strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000),
		"103 without end":                  strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHostileRig(t)
			target := r.rawServer([]string{"http/1.1"}, answers(answer, nil))
			resp, err := r.client("h1").Get("https://" + target + "/")
			if err != nil {
				if !strings.Contains(name, "without end") {
					t.Fatal(err)
				}
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusBadGateway && (resp.StatusCode != http.StatusOK || err == nil) {
				t.Errorf("status %d, %v: %q", resp.StatusCode, err, body)
			}
			r.works(target)
		})
	}
}

// TestRequestsAreSentOnce has a server read a request on a connection that was used before, and
// break off without an answer. A request that may have had an effect is not sent again.
func TestRequestsAreSentOnce(t *testing.T) {
	t.Parallel()
	for name, breakOff := range map[string]func(net.Conn){
		"end":   func(net.Conn) {},
		"reset": func(conn net.Conn) { _ = conn.(*tls.Conn).NetConn().(*net.TCPConn).SetLinger(0) },
		"half":  func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 2") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHostileRig(t)
			var posts atomic.Int64
			target := r.rawServer([]string{"http/1.1"}, func(conn net.Conn) {
				in := bufio.NewReader(conn)
				for {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					if req.Method == http.MethodPost {
						posts.Add(1)
						breakOff(conn)
						return
					}
					_, _ = io.WriteString(conn, hostileOK)
				}
			})
			r.works(target)
			for _, body := range []string{"body", ""} {
				posts.Store(0)
				r.works(target) // leaves a connection that is used again
				resp, err := r.client("h1").Post("https://"+target+"/", "text/plain", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusBadGateway || posts.Load() != 1 {
					t.Errorf("a body of %d bytes: status %d, and the server got %d requests", len(body), resp.StatusCode, posts.Load())
				}
			}
		})
	}
}

// TestRequestsThatBreakOff has the client break off its request. The server sees an error where it
// reads the body, never a clean end.
func TestRequestsThatBreakOff(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{"chunked": "Transfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n", "short of its length": "Content-Length: 9\r\n\r\nbegun"} {
		for way, breakOff := range map[string]func(*net.TCPConn){
			"reset": func(c *net.TCPConn) { reset(c) },
			"close": func(c *net.TCPConn) { _ = c.Close() },
			"half":  func(c *net.TCPConn) { _ = c.CloseWrite() },
		} {
			t.Run("h1 "+name+" "+way, func(t *testing.T) {
				t.Parallel()
				r := newHostileRig(t)
				target, begun, ended := r.readingServer()
				conn := r.secure(target, "http/1.1")
				_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: "+target+"\r\n"+head)
				await.Receive(t, begun, "the beginning of the body")
				breakOff(conn.NetConn().(*net.TCPConn))
				if err := await.Receive(t, ended, "the end of the body"); err == nil {
					t.Error("the server saw a clean end")
				}
				r.works(target)
			})
		}
	}
	t.Run("h2", func(t *testing.T) {
		t.Parallel()
		r := newHostileRig(t)
		target, begun, ended := r.readingServer()
		ctx, cancel := context.WithCancel(context.Background())
		body, feed := io.Pipe()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+target+"/", body)
		go func() { _, _ = io.WriteString(feed, "begun") }()
		go func() {
			<-begun
			cancel()
		}()
		if resp, err := r.client("h2").Do(req); err == nil {
			t.Errorf("status %d", resp.StatusCode)
		}
		if err := await.Receive(t, ended, "the end of the body"); err == nil {
			t.Error("the server saw a clean end")
		}
		r.works(target)
	})
}

// TestRequestsThatCannotBeRead sends a body that is no body: the client is told that its request is
// wrong, and not that the server is.
func TestRequestsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := newHostileRig(t)
	target, _, _ := r.readingServer()
	conn := r.secure(target, "http/1.1")
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: "+target+"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\nno length\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "the request body cannot be read") {
		t.Errorf("status %d: %s", resp.StatusCode, text)
	}
	r.works(target)
}

// readingServer reads bodies to their end. begun has a value when the first bytes were read; ended
// has the error of the last read.
func (r *hostileRig) readingServer() (target string, begun chan struct{}, ended chan error) {
	begun, ended = make(chan struct{}, 99), make(chan error, 99)
	return r.server(func(_ http.ResponseWriter, req *http.Request) {
		_, err := io.ReadFull(req.Body, make([]byte, len("begun")))
		begun <- struct{}{}
		if err == nil {
			_, err = io.Copy(io.Discard, req.Body)
		}
		ended <- err
	}), begun, ended
}

// TestSteadyButSlowBodies passes bodies that take much longer than the idle time, in both
// directions. HTTP/1.1 and HTTP/2 have a bubble each.
func TestSteadyButSlowBodies(t *testing.T) {
	const idle, pause, parts = 2 * time.Second, 1900 * time.Millisecond, 30
	slowly := func(write func()) {
		for range parts {
			time.Sleep(pause)
			write()
		}
	}
	bothInBubbles(t, func(t *testing.T, protocol string) {
		r := newHostileRig(t, overPipes, func(o *hostileOptions) { o.IdleTimeout, o.forward.Silence = idle, idle })
		target := r.server(func(w http.ResponseWriter, req *http.Request) {
			got, err := io.ReadAll(req.Body)
			if len(got) != parts || err != nil {
				t.Errorf("the server got %d bytes, %v", len(got), err)
			}
			if req.URL.Path == "/answer" {
				slowly(func() { flushed(w, "x") })
			}
		})
		resp, err := r.client(protocol).Post("https://"+target+"/answer", "", strings.NewReader(strings.Repeat("x", parts)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); len(got) != parts || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		_ = resp.Body.Close()
		body, feed := io.Pipe()
		go func() {
			slowly(func() { _, _ = io.WriteString(feed, "x") })
			_ = feed.Close()
		}()
		resp, err = r.client(protocol).Post("https://"+target+"/request", "", body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}

// TestSilentPeers has one side stop in the middle of a body, or before it. Both sides are told when
// the idle time is over. Each way has a bubble of its own.
func TestSilentPeers(t *testing.T) {
	for _, path := range []string{"/silent", "/begun", "/upload"} {
		t.Run(path, func(t *testing.T) {
			bothInBubbles(t, func(t *testing.T, protocol string) { testSilentPeer(t, protocol, path) })
		})
	}
}

// testSilentPeer runs in a bubble.
func testSilentPeer(t *testing.T, protocol, path string) {
	const idle = time.Minute
	r := newHostileRig(t, overPipes, func(o *hostileOptions) { o.IdleTimeout, o.forward.Silence = idle, idle })
	left := make(chan error, 1)
	target := r.server(func(w http.ResponseWriter, req *http.Request) {
		if path == "/upload" {
			_, err := io.Copy(io.Discard, req.Body)
			left <- err
			return
		}
		_, _ = io.Copy(io.Discard, req.Body) // or net/http does not see that the client leaves
		if path == "/begun" {
			flushed(w, "begun")
		}
		<-req.Context().Done()
		left <- req.Context().Err()
	})
	body, feed := io.Pipe()
	defer feed.Close()
	go func() {
		if path == "/upload" {
			_, _ = io.WriteString(feed, "begun")
			return
		}
		_ = feed.Close()
	}()
	began := time.Now()
	resp, err := r.post(protocol, target, path, body)
	if err == nil {
		defer resp.Body.Close()
		if _, err = io.ReadAll(resp.Body); err == nil && resp.StatusCode < 400 {
			t.Errorf("status %d with a clean end", resp.StatusCode)
		}
	}
	if took := time.Since(began); took < idle || took > idle+time.Second {
		t.Errorf("the client was told after %v", took)
	}
	if <-left == nil {
		t.Error("the server saw a clean end")
	}
	r.works(target)
}

// TestHalfClose has the client say that it sends no more while the answer is under way. It gets all
// of it, or an error.
func TestHalfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHostileRig(t, overPipes)
		closed := make(chan struct{})
		target := r.server(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Length", "10")
			flushed(w, "begun")
			select {
			case <-closed:
			case <-req.Context().Done():
			}
			time.Sleep(time.Second) // in which the proxy notices; either outcome is right
			flushed(w, "ended")
		})
		conn := r.secure(target, "http/1.1")
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+target+"\r\nConnection: close\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.CloseWrite()
		_ = conn.NetConn().(halfConn).CloseWrite()
		close(closed)
		if body, err := io.ReadAll(resp.Body); err == nil && string(body) != "begunended" {
			t.Errorf("a clean end after %q", body)
		}
	})
}

// TestCompressedBodiesPassUntouched sends a gzip stream that is cut short, and one with a wrong
// checksum. They are not for the proxy to read.
func TestCompressedBodiesPassUntouched(t *testing.T) {
	t.Parallel()
	var whole bytes.Buffer
	z := gzip.NewWriter(&whole)
	_, _ = io.WriteString(z, strings.Repeat("hello ", 1000))
	_ = z.Close()
	wrong := bytes.Clone(whole.Bytes())
	wrong[len(wrong)-5] ^= 1
	both(t, func(t *testing.T, protocol string) {
		r := newHostileRig(t)
		target := r.server(func(w http.ResponseWriter, req *http.Request) {
			got, _ := io.ReadAll(req.Body)
			w.Header()["Content-Encoding"] = req.Header["Content-Encoding"]
			_, _ = w.Write(got)
		})
		for _, body := range [][]byte{whole.Bytes(), whole.Bytes()[:whole.Len()/2], wrong, []byte("no gzip at all")} {
			req, _ := http.NewRequest(http.MethodPost, "https://"+target+"/", bytes.NewReader(body))
			req.Header.Set("Content-Encoding", "gzip")
			resp, err := r.client(protocol).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if !bytes.Equal(got, body) || err != nil || resp.Header.Get("Content-Encoding") != "gzip" {
				t.Errorf("%d bytes came back as %d, %v, %v", len(body), len(got), err, resp.Header)
			}
		}
	})
}

// TestEarlyAnswer has the server answer while the client still uploads. The answer arrives and
// ends; the rest of the upload does not hold it up.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, protocol string) {
		r := newHostileRig(t)
		target := r.server(func(w http.ResponseWriter, req *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex() // or net/http reads the body before it answers
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			_, _ = io.WriteString(w, "too large")
		})
		stop := make(chan struct{})
		defer close(stop)
		together(t, slices.Values([]string{"endless", "silent"}), func(t *testing.T, upload string) {
			body, feed := io.Pipe()
			go func() {
				defer feed.Close()
				part := make([]byte, 32<<10)
				for n := 0; upload == "endless" || n == 0; n++ {
					if _, err := feed.Write(part); err != nil {
						return
					}
				}
				<-stop
			}()
			resp, err := r.post(protocol, target, "/", body)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusRequestEntityTooLarge || string(got) != "too large" || err != nil {
				t.Errorf("status %d, %v: %q", resp.StatusCode, err, got)
			}
		})
	})
}

// TestFullDuplex sends a line, waits for its echo, and sends the next.
func TestFullDuplex(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, protocol string) {
		r := newHostileRig(t)
		target := r.server(func(w http.ResponseWriter, req *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex()
			flushed(w, "ready\n")
			for in := bufio.NewReader(req.Body); ; {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				flushed(w, line)
			}
		})
		body, feed := io.Pipe()
		resp, err := r.client(protocol).Post("https://"+target+"/", "", body)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		in := bufio.NewReader(resp.Body)
		for i := -1; i < 20; i++ {
			want := fmt.Sprintf("line %d\n", i)
			if i < 0 {
				want = "ready\n"
			} else {
				_, _ = io.WriteString(feed, want)
			}
			if got, err := in.ReadString('\n'); got != want || err != nil {
				t.Fatalf("%q, %v", got, err)
			}
		}
		_ = feed.Close()
		if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil {
			t.Errorf("at the end: %q, %v", rest, err)
		}
	})
}

package extserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee"
	"perigee/internal/langserver/extserver"
	"perigee/internal/testing/perigeetest/await"
)

// TestAnotherUserIsRefused has a process of another user call with the token, which it can read in
// the arguments of the language server.
func TestAnotherUserIsRefused(t *testing.T) {
	const secret = `{"key":"oauth_token"}`
	if at := os.Getenv("PERIGEE_TEST_SERVER"); at != "" {
		url, token, _ := strings.Cut(at, " ")
		req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(secret))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", asJSON)
		req.Header.Set("X-Codeium-Csrf-Token", token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		http.DefaultClient.CloseIdleConnections()
		fmt.Printf("answer %d %s\n", res.StatusCode, body)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	const known = 65533
	r := newRig(t, extserver.Options{Users: []int{known}})
	r.SetToken(extserver.Token{Access: perigee.NewSecret("tok-1")})
	for _, user := range []struct {
		id   uint32
		want string
	}{{0, "answer 200"}, {known, "answer 200"}, {65534, "answer 403"}} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("PERIGEE_TEST_SERVER=%s %s", r.url()+path+"GetSecretValue", r.CSRF().Reveal()))
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user.id, Gid: user.id}}
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.Contains(string(out), "answer") {
			t.Skipf("a process of user %d cannot run here: %v %s", user.id, err, out)
		}
		if !strings.Contains(string(out), user.want) || strings.Contains(string(out), "tok-1") != (user.id != 65534) {
			t.Errorf("user %d got %s", user.id, out)
		}
	}
	if text := r.log.String(); !strings.Contains(text, "called by another user") {
		t.Errorf("the log has %q", text)
	}
}

// TestSocketsOfBothFamiliesAreKnown calls through a socket for IPv6, as some runtimes do for every
// address.
func TestSocketsOfBothFamiliesAreKnown(t *testing.T) {
	r := newRig(t, extserver.Options{})
	fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no IPv6: %v", err)
	}
	file := os.NewFile(uintptr(fd), "socket")
	defer func() { _ = file.Close() }()
	address := &syscall.SockaddrInet6{Port: r.Port()}
	copy(address.Addr[:], net.ParseIP("127.0.0.1").To16())
	if err := syscall.Connect(fd, address); err != nil {
		t.Skipf("no IPv6: %v", err)
	}
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(await.Limit))
	if _, err := fmt.Fprintf(conn, "POST %sHeartbeat HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Codeium-Csrf-Token: %s\r\nContent-Type: %s\r\nContent-Length: 2\r\n\r\n{}",
		path, r.CSRF().Reveal(), asJSON); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Errorf("got %s", res.Status)
	}
}

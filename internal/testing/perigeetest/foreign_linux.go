package perigeetest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/internal/testing/perigeetest/await"
)

// foreignVariable makes a test program a process of another user that listens.
const foreignVariable = "PERIGEE_TEST_FOREIGN"

// ListenAsAnotherUser starts the test program again, as a process of another user that listens on
// 127.0.0.1, and returns its port. got waits until a number of connections have ended and returns
// what they have sent. The test calls it first: the other process does nothing else of the test.
// Only root can start such a process; for other users the test is skipped. Real time: the other
// process has a limit, and nothing is compared with it.
func ListenAsAnotherUser(t *testing.T, connections int) (port int, got func() []string) {
	t.Helper()
	if os.Getenv(foreignVariable) != "" {
		listenForeign(connections)
		os.Exit(0)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env, cmd.Dir = append(os.Environ(), foreignVariable+"=1"), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("a process of another user cannot run here: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = await.Result(t, cmd.Wait, "the end of the other process")
	})
	lines := bufio.NewScanner(out)
	if lines.Scan(); !strings.HasPrefix(lines.Text(), "port ") {
		t.Skipf("a process of another user cannot listen here: %s", lines.Text())
	}
	if port, err = strconv.Atoi(strings.TrimPrefix(lines.Text(), "port ")); err != nil {
		t.Fatal(err)
	}
	return port, func() (texts []string) {
		for len(texts) < connections && lines.Scan() {
			texts = append(texts, lines.Text())
		}
		return texts
	}
}

// listenForeign prints its port, and what each connection sends, quoted.
func listenForeign(connections int) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("port", listener.Addr().(*net.TCPAddr).Port)
	for range connections {
		conn, err := listener.Accept()
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = conn.SetReadDeadline(time.Now().Add(await.Limit))
		text, _ := io.ReadAll(io.LimitReader(conn, 1000))
		fmt.Printf("%q\n", text)
		_ = conn.Close()
	}
}

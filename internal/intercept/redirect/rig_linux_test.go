package redirect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

const (
	insideVariable = "REDIRECT_TEST_INSIDE" // the variant that a test runs in a system of its own
	roleVariable   = "REDIRECT_TEST_ROLE"   // makes the test program one that connects, installs or removes
	patience       = time.Minute
)

func TestMain(m *testing.M) {
	if role := strings.Fields(os.Getenv(roleVariable)); len(role) > 0 {
		play(role[0], role[1:])
		return
	}
	// Under the race detector a process sleeps for a second before it exits.
	_ = os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	goleak.VerifyTestMain(m)
}

// play is what the test program does as a process of its own.
func play(role string, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var said any
	var err error
	switch role {
	case "tcp", "udp":
		said, err = greet(role, args[0])
	case "https":
		said, err = get(args[0], args[1], args[2])
	case "persist":
		said, err = New().Install(ctx, Request{User: args[0], Port: DefaultPort, Backend: args[1], Persist: true})
	case "install":
		said, err = New().Install(ctx, Request{User: args[0], Port: DefaultPort, Backend: args[1]})
	case "status":
		said, err = New().Status(ctx)
	case "installed":
		said, err = Installed(ctx)
	}
	fmt.Printf("%v %v\n", said, err)
}

// greet says hello and returns the answer.
func greet(network, address string) (string, error) {
	conn, err := net.DialTimeout(network, address, patience)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write([]byte("hello")); err != nil {
		return "", err
	}
	answer := make([]byte, 100)
	n, err := conn.Read(answer)
	return string(answer[:n]), err
}

// inSystem runs each variant of a test in a system of its own: a network without rules, its own
// processes, and copies of the files of users and of /var/lib. It is true in there.
func inSystem(t *testing.T, variants ...string) (variant string, inside bool) {
	t.Helper()
	if variant := os.Getenv(insideVariable); variant != "" {
		newSystem(t)
		return variant, true
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can make a network namespace and change rules")
	}
	for _, tool := range []string{"nft", "iptables", "ip6tables", "ip", "useradd"} {
		if !installed(tool) {
			t.Skipf("%s is not installed (Debian: nftables, iptables, iproute2, passwd)", tool)
		}
	}
	for _, variant := range variants {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$")
			cmd.Env = append(os.Environ(), insideVariable+"="+variant)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
			out, err := cmd.CombinedOutput()
			switch {
			case errors.Is(err, syscall.EPERM):
				t.Skipf("no namespaces here: %v", err)
			case err != nil:
				t.Fatalf("%v\n%s", err, out)
			case strings.Contains(string(out), "--- SKIP"):
				t.Skip(string(out))
			case !strings.Contains(string(out), "--- PASS"):
				t.Errorf("it did not run: %s", out)
			}
		})
	}
	return "", false
}

const (
	cloud4, cloud6 = "203.0.113.1", "2001:db8::1"
	far4, far6     = "203.0.113.99", "2001:db8::99" // nothing answers there
)

func newSystem(t *testing.T) {
	t.Helper()
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, unix.Mount("proc", "/proc", "proc", 0, "")) // a user of the same number elsewhere may have processes
	dir, err := os.MkdirTemp("/tmp", "redirect")
	must(t, err)
	t.Cleanup(func() { must(t, os.Remove(dir)) })
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"))
	for _, path := range []string{"etc", "lib"} {
		must(t, os.Mkdir(filepath.Join(dir, path), 0o755))
	}
	tool(t, "cp", "-a", "/etc/.", filepath.Join(dir, "etc"))
	must(t, unix.Mount(filepath.Join(dir, "etc"), "/etc", "", unix.MS_BIND, ""))
	must(t, unix.Mount(filepath.Join(dir, "lib"), "/var/lib", "", unix.MS_BIND, ""))
	must(t, unix.Unmount(dir, unix.MNT_DETACH))
	must(t, os.MkdirAll("/etc/systemd/system", 0o755))
	for _, command := range []string{
		"link set lo up", "addr add " + cloud4 + "/32 dev lo", "-6 addr add " + cloud6 + "/128 dev lo nodad",
		"route add local " + far4 + " dev lo", "-6 route add local " + far6 + " dev lo",
	} {
		tool(t, "ip", strings.Fields(command)...)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := run(t.Context(), "", name, args...)
	must(t, err)
	return out
}

// program is a copy of the test program that every user can run.
func program(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "redirect")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	from, err := os.Open("/proc/self/exe")
	must(t, err)
	defer func() { _ = from.Close() }()
	path := filepath.Join(dir, "program")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	must(t, err)
	_, err = io.Copy(to, from)
	must(t, errors.Join(err, to.Close()))
	return path
}

// as runs a role as a user, and returns what it prints.
func as(t *testing.T, program string, uid int, role ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Dir, cmd.Env = "/", append(os.Environ(), roleVariable+"="+strings.Join(role, " "))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return strings.TrimSpace(string(out)) + " " + err.Error()
	}
	return strings.TrimSpace(string(out))
}

// everything is all that an install may change: rules, users, and files.
func everything(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(tool(t, "nft", "list", "ruleset"))
	for _, name := range []string{"iptables-save", "ip6tables-save"} {
		for line := range strings.Lines(tool(t, name)) {
			if !strings.HasPrefix(line, "# Generated") && !strings.HasPrefix(line, "# Completed") {
				b.WriteString(line)
			}
		}
	}
	for _, path := range []string{"/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow", "/etc/subuid", "/etc/subgid"} {
		text, _ := os.ReadFile(path)
		fmt.Fprintf(&b, "%s\n%s", path, text)
	}
	b.WriteString(tool(t, "find", "/var/lib", "/etc/systemd"))
	return b.String()
}

// serve answers connections: those to the cloud with "cloud", and those to the proxy with the
// address that they were made to.
func serve(t *testing.T) {
	t.Helper()
	for _, address := range []string{cloud4 + ":443", "[" + cloud6 + "]:443"} {
		answerTCP(t, address, func(*net.TCPConn) string { return "cloud" })
		packets, err := net.ListenPacket("udp", address)
		must(t, err)
		t.Cleanup(func() { _ = packets.Close() })
		go func() {
			for b := make([]byte, 100); ; {
				_, from, err := packets.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = packets.WriteTo([]byte("cloud"), from)
			}
		}()
	}
	for _, address := range []string{"127.0.0.1:8742", "[::1]:8742"} {
		answerTCP(t, address, func(c *net.TCPConn) string { return "proxy " + original(c) })
	}
}

func answerTCP(t *testing.T, address string, text func(*net.TCPConn) string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, text(conn.(*net.TCPConn)))
			_ = conn.Close()
		}
	}()
}

// original returns the address that a redirected connection was made to.
func original(c *net.TCPConn) (address string) {
	const originalDestination = 80 // SO_ORIGINAL_DST, for both families
	raw, err := c.SyscallConn()
	if err != nil {
		return err.Error()
	}
	_ = raw.Control(func(fd uintptr) {
		if c.LocalAddr().(*net.TCPAddr).IP.To4() != nil {
			got, err := unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, originalDestination) // of the size of an address
			if address = fmt.Sprint(err); err == nil {
				address = fmt.Sprintf("%v:%d", net.IP(got.Multiaddr[4:8]), int(got.Multiaddr[2])<<8|int(got.Multiaddr[3]))
			}
			return
		}
		got, err := unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, originalDestination) // begins with an address
		if address = fmt.Sprint(err); err == nil {
			address = fmt.Sprintf("[%v]:%d", net.IP(got.Addr.Addr[:]), got.Addr.Port>>8|got.Addr.Port<<8&0xff00)
		}
	})
	return address
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// redirectInstall is what it takes to redirect the connections of a user, in namespaces that hide
// it from the machine.
const redirectInstall = "redirect"

func installRedirect(ctx context.Context) (fresh bool, err error) {
	if runtime.GOOS != "linux" {
		return false, errors.New("connections are redirected on Linux only")
	}
	if os.Getuid() != 0 {
		return false, errors.New("only root can redirect connections")
	}
	for _, p := range []struct{ program, debian string }{{"nft", "nftables"}, {"ip", "iproute2"}, {"curl", "curl"}, {"useradd", "passwd"}, {"setpriv", "util-linux"}} {
		if _, err := exec.LookPath(p.program); err == nil {
			continue
		}
		if err := installDebian(ctx, p.debian); err != nil {
			return fresh, err
		}
		fresh = true
	}
	probe := []string{"unshare", "--net", "--mount", "--", "sh", "-c",
		"mount -t tmpfs tmpfs /opt && nft 'add table inet probe; add chain inet probe out { type nat hook output priority -100; }; add rule inet probe out meta skuid 1 tcp dport 443 redirect to :1'"}
	if output, err := exec.CommandContext(ctx, probe[0], probe[1:]...).CombinedOutput(); err != nil {
		return fresh, fmt.Errorf("namespaces with rules are not permitted here: %w: %s", err, firstLines(string(output), 2))
	}
	return fresh, nil
}

const redirectRemoved = "removal"

// redirections are language servers whose connections the system redirects.
func redirections() []client {
	return []client{{
		name: "interception transparent", version: "stand-in", install: redirectInstall, scenarios: []string{http1, http2, redirectRemoved}, together: true,
		run: func(ctx context.Context, s *stage, c client, r *report) {
			limited, cancel := context.WithTimeout(ctx, 2*versionLimit)
			defer cancel()
			e, err := newEnclosure(limited, s)
			if err != nil {
				r.addAll(c, err)
				return
			}
			defer e.close()
			for _, scenario := range c.scenarios {
				if scenario == redirectRemoved {
					r.add(c, scenario, e.removed(limited))
				} else {
					r.add(c, scenario, e.intercepts(limited, scenario))
				}
			}
		},
	}}
}

// The addresses of the cloud in an enclosure.
const (
	enclosedCloud  = "203.0.113.10"
	enclosedCloud6 = "fd77::10"
)

const redirectUser = "perigee-e2e"

// An enclosure is a network with an own cloud, and a copy of the files in which users and redirects
// are noted. Its users, rules and mounts are not those of the machine, and end with its processes.
// The first of them ends with this one, whose pipe it reads.
type enclosure struct {
	stage  *stage
	holder *exec.Cmd
	inside []string // runs what follows inside
	before string   // users and rules before the redirect was installed
}

// enclose makes the namespaces of this process an enclosure with perigee at /opt/perigee, and
// waits.
const enclose = `set -e
mount -t tmpfs -o mode=755 tmpfs /opt
touch /opt/perigee && mount --bind "$1" /opt/perigee
cp -a /etc /opt/etc && mount --bind /opt/etc /etc
mount -t tmpfs -o mode=755 tmpfs /var/lib
echo "$2 $4" >>/etc/hosts
ip link set lo up
ip addr add "$2/32" dev lo
if [ -e /proc/net/if_inet6 ]; then ip addr add "$3/128" dev lo nodad; fi
nft 'add table inet mine; add chain inet mine out { type filter hook output priority 0; }; add rule inet mine out tcp dport 444 drop'
echo inside
exec cat`

func newEnclosure(ctx context.Context, s *stage) (_ *enclosure, err error) {
	e := &enclosure{stage: s}
	e.holder = exec.CommandContext(ctx, "unshare", "--net", "--mount", "--", "sh", "-c", enclose, "sh", s.binary, enclosedCloud, enclosedCloud6, cloudHost)
	var failed bytes.Buffer
	e.holder.Stderr = &failed
	if _, err := e.holder.StdinPipe(); err != nil {
		return nil, err
	}
	said, err := e.holder.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := e.holder.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	if _, err := io.ReadFull(said, make([]byte, len("inside\n"))); err != nil {
		_ = e.holder.Wait()
		return nil, fmt.Errorf("make an enclosure: %w: %s", err, firstLines(failed.String(), 5))
	}
	pid := strconv.Itoa(e.holder.Process.Pid)
	e.inside = []string{"nsenter", "--net=/proc/" + pid + "/ns/net", "--mount=/proc/" + pid + "/ns/mnt", "--"}
	if e.before, err = e.traces(ctx); err != nil {
		return nil, err
	}
	if _, err := e.run(ctx, "/opt/perigee", "redirect", "install", "--user", redirectUser); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *enclosure) close() {
	_ = e.holder.Process.Kill()
	_ = e.holder.Wait()
}

// path is where this process finds a file of the enclosure.
func (e *enclosure) path(name string) string {
	return filepath.Join("/proc", strconv.Itoa(e.holder.Process.Pid), "root", name)
}

func (e *enclosure) network() string { return fmt.Sprintf("/proc/%d/ns/net", e.holder.Process.Pid) }

// run runs a command inside and returns what it prints.
func (e *enclosure) run(ctx context.Context, args ...string) (string, error) {
	args = append(append([]string{}, e.inside...), args...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=/opt/home", "PERIGEE_DATA_DIR=/opt/data", "PERIGEE_KEYRING=off"}
	out, err := cmd.Output()
	if err != nil {
		said := string(out)
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			said += string(exit.Stderr)
		}
		return string(out), fmt.Errorf("%s: %w: %s", strings.Join(args[len(e.inside):], " "), err, firstLines(said, 5))
	}
	return string(out), nil
}

// traces is everything that a redirect may leave behind.
func (e *enclosure) traces(ctx context.Context) (string, error) {
	return e.run(ctx, "sh", "-c", "nft list ruleset && cat /etc/passwd /etc/group /etc/shadow /etc/gshadow && find /var/lib /home /opt -xdev -name '*perigee-*'")
}

// removed removes the redirect, after which users and rules are what they were.
func (e *enclosure) removed(ctx context.Context) error {
	during, err := e.traces(ctx)
	if err != nil {
		return err
	}
	if during == e.before || !strings.Contains(during, redirectUser) {
		return fmt.Errorf("there is no redirect to remove:\n%s", during)
	}
	_, err = e.run(ctx, "/opt/perigee", "redirect", "remove")
	for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); time.Sleep(time.Second) {
		_, err = e.run(ctx, "/opt/perigee", "redirect", "remove") // another enclosure may have a process with the same user id
	}
	if err != nil {
		return err
	}
	after, err := e.traces(ctx)
	if err != nil {
		return err
	}
	if after != e.before {
		return fmt.Errorf("rules and users were\n%s\nand are\n%s", e.before, after)
	}
	status, err := e.run(ctx, "/opt/perigee", "redirect", "status", "--json")
	if err == nil && !strings.Contains(strings.ReplaceAll(status, " ", ""), `"installed":false`) {
		err = fmt.Errorf("perigee redirect status says %s", status)
	}
	return err
}

// intercepts has a language server ask the cloud, which is where its host name leads.
func (e *enclosure) intercepts(ctx context.Context, version string) error {
	cloud, err := newTLSCloud(ctx, e.stage, "intercept-transparent-"+shortVersion[version], version)
	if err != nil {
		return err
	}
	defer cloud.close()
	listener, err := listenIn(e.network(), ":443")
	if err != nil {
		return err
	}
	cloud.serve(listener)
	signIn, closeSignIn, err := e.forward(cloud.simulator)
	if err != nil {
		return err
	}
	defer closeSignIn()
	daemon, err := e.serve(ctx, cloud, signIn)
	if err != nil {
		return err
	}
	defer daemon.stop()
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		return dialIn(ctx, e.network(), address)
	}
	transport := &http.Transport{DialContext: dial}
	defer transport.CloseIdleConnections()
	talk := &talk{client: &http.Client{Transport: transport}, url: daemon.address, key: e.stage.key, cloud: cloud}
	err = talk.all(ctx)
	if err == nil {
		err = cloud.check(ctx, cloudHost)
	}
	if err == nil {
		err = e.seesOnlyTheUser(ctx)
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, lastBytes(daemon.said(), 1500))
	}
	return err
}

// forward has the sign-in server answer inside as well.
func (e *enclosure) forward(simulator string) (address string, closeAll func(), err error) {
	target, err := url.Parse(simulator)
	if err != nil {
		return "", nil, err
	}
	listener, err := listenIn(e.network(), "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}}
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() { _ = server.Close() }, nil
}

// serve starts a daemon inside, with files that end with the enclosure.
func (e *enclosure) serve(ctx context.Context, cloud *tlsCloud, signIn string) (*process, error) {
	if err := os.RemoveAll(e.path("/opt/data")); err != nil {
		return nil, err
	}
	upstream := fmt.Sprintf("    intercept: transparent\n    cloud_url: https://%s\n    env: {PERIGEE_STANDIN: \"http=%s\"}\n", cloudHost, shortVersion[cloud.version])
	certificate, err := os.ReadFile(cloud.certificate)
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{
		"perigee.yaml":  headlessConfig(e.stage.key, signIn, interceptionConfig("/opt/cloud.pem"), upstream),
		"accounts.json": headlessAccounts, "cloud.pem": string(certificate),
	} {
		if err := os.WriteFile(e.path("/opt/"+name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(e.path("/opt/perigee.yaml"), 0o600); err != nil {
		return nil, err
	}
	if _, err := e.run(ctx, "/opt/perigee", "account", "import", "/opt/accounts.json", "--config", "/opt/perigee.yaml"); err != nil {
		return nil, err
	}
	args := append(append([]string{}, e.inside[1:]...), "env", "HOME=/opt/home", "PERIGEE_DATA_DIR=/opt/data",
		"/opt/perigee", "serve", "--config", "/opt/perigee.yaml", "--listen", "127.0.0.1:0")
	return e.stage.launch(ctx, "intercept-transparent-"+shortVersion[cloud.version], e.inside[0], args...)
}

// runsAsTheUser returns the user id of the redirect, after it has compared it with that of the
// language server.
func (e *enclosure) runsAsTheUser(ctx context.Context) (uid int, err error) {
	var status struct {
		Installed bool
		UID       int
	}
	said, err := e.run(ctx, "/opt/perigee", "redirect", "status", "--json")
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal([]byte(said), &status); err != nil || !status.Installed || status.UID <= 0 {
		return 0, fmt.Errorf("perigee redirect status says %s, %w", said, err)
	}
	var servers []langserverStatus
	if said, err = e.run(ctx, "/opt/perigee", "langserver", "status", "--json", "--config", "/opt/perigee.yaml"); err != nil {
		return 0, err
	}
	if err := json.Unmarshal([]byte(said), &servers); err != nil || len(servers) != 1 {
		return 0, fmt.Errorf("perigee langserver status says %s, %w", said, err)
	}
	owner, err := e.run(ctx, "stat", "--format=%u", "/proc/"+strconv.Itoa(servers[0].PID))
	if err == nil && strings.TrimSpace(owner) != strconv.Itoa(status.UID) {
		err = fmt.Errorf("the language server runs as user %s, want %d", strings.TrimSpace(owner), status.UID)
	}
	return status.UID, err
}

// seesOnlyTheUser connects to port 443 as the user of the redirect and as root. perigee may look
// into connections of that user to the cloud, and into no further connections. Another user is not
// served at the port of the proxy.
func (e *enclosure) seesOnlyTheUser(ctx context.Context) error {
	uid, err := e.runsAsTheUser(ctx)
	if err != nil {
		return err
	}
	authority, err := os.ReadFile(e.path("/opt/data/ca/ca.pem"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(e.path("/opt/ca.pem"), authority, 0o644); err != nil {
		return err
	}
	addresses := []string{enclosedCloud}
	if _, err := os.Stat("/proc/net/if_inet6"); err == nil {
		addresses = append(addresses, "["+enclosedCloud6+"]")
	}
	for _, address := range addresses {
		for _, look := range []struct {
			uid      int
			host, ca string
		}{{uid, cloudHost, "/opt/ca.pem"}, {uid, otherHost, "/opt/cloud.pem"}, {0, cloudHost, "/opt/cloud.pem"}} {
			if _, err := e.run(ctx, "setpriv", "--reuid", strconv.Itoa(look.uid), "--clear-groups", "--",
				"curl", "--silent", "--show-error", "--max-time", "60", "--output", "/dev/null", "--noproxy", "*",
				"--resolve", look.host+":443:"+address, "--cacert", look.ca, "https://"+look.host+"/"); err != nil {
				return fmt.Errorf("as user %d: %w", look.uid, err)
			}
		}
	}
	if said, err := e.run(ctx, "setpriv", "--reuid", "4242", "--clear-groups", "--",
		"curl", "--silent", "--show-error", "--max-time", "60", "--noproxy", "*", "--insecure",
		"--resolve", cloudHost+":8742:127.0.0.1", "https://"+cloudHost+":8742/"); err == nil {
		return fmt.Errorf("another user was served at the port of the proxy: %s", said)
	}
	return nil
}

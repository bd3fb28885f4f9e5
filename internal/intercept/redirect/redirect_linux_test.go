package redirect

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/lib/procgroup"
	"perigee/internal/testing/perigeetest/await"
)

// foreign are rules of other programs.
func foreign(t *testing.T) {
	t.Helper()
	for _, command := range []string{
		"nft add table inet other", "nft add chain inet other out { type filter hook output priority 0 ; }", "nft add rule inet other out tcp dport 25 counter drop",
		"iptables -t nat -A PREROUTING -p tcp --dport 80 -j REDIRECT --to-ports 8080", "ip6tables -A OUTPUT -p tcp --dport 25 -j REJECT",
		"iptables -A OUTPUT -p udp --dport 443 -m owner --uid-owner 4711 -m comment --comment other -j ACCEPT",
	} {
		words := strings.Fields(command)
		tool(t, words[0], words[1:]...)
	}
}

func TestConnectionsOfOneUserAreRedirected(t *testing.T) {
	variant, inside := inSystem(t, "nftables", "nftables-foreign", "iptables", "iptables-foreign")
	if !inside {
		return
	}
	backend, rest, _ := strings.Cut(variant, "-")
	if rest == "foreign" {
		foreign(t)
	}
	before := everything(t)
	r, program := New(), program(t)
	serve(t)
	got, err := r.Install(t.Context(), Request{User: "perigee-test", Port: DefaultPort, Backend: backend})
	must(t, err)
	u, err := procgroup.Lookup("perigee-test")
	must(t, err)
	want := Status{Installed: true, User: "perigee-test", UID: u.UID, Backend: backend, Port: DefaultPort}
	if got != want || u.UID == 0 {
		t.Errorf("installed %+v, want %+v", got, want)
	}
	must(t, u.Check(t.Context()))
	if out, err := u.Run(t.Context(), nil, `cd && pwd && touch made && stat -c "%u %a" .`); out != fmt.Sprintf("%s/perigee-test\n%d 700\n", Dir, u.UID) || err != nil {
		t.Errorf("home %q, %v", out, err)
	}

	const other = 61234
	for _, c := range []struct {
		uid        int
		role, want string
	}{
		{u.UID, "tcp 203.0.113.1:443", "proxy 203.0.113.1:443 <nil>"},
		{u.UID, "tcp [2001:db8::1]:443", "proxy [2001:db8::1]:443 <nil>"},
		{u.UID, "tcp " + far4 + ":443", "proxy 203.0.113.99:443 <nil>"},
		{u.UID, "tcp [" + far6 + "]:443", "proxy [2001:db8::99]:443 <nil>"},
		{u.UID, "tcp 127.0.0.1:444", "refused"},
		{u.UID, "udp 203.0.113.1:443", "write: operation not permitted"},
		{u.UID, "udp [2001:db8::1]:443", "write: operation not permitted"},
		{other, "tcp 203.0.113.1:443", "cloud <nil>"},
		{other, "tcp [2001:db8::1]:443", "cloud <nil>"},
		{other, "udp 203.0.113.1:443", "cloud <nil>"},
		{other, "udp [2001:db8::1]:443", "cloud <nil>"},
		{0, "tcp 203.0.113.1:443", "cloud <nil>"},
		{u.UID, "installed", fmt.Sprintf("{true perigee-test %d %s 8742 false } <nil>", u.UID, backend)},
		{u.UID, "status", "only root can read and change the rules of the system; run sudo perigee redirect status"},
		{0, "installed", fmt.Sprintf("{true perigee-test %d %s 8742 false } <nil>", u.UID, backend)},
	} {
		if got := as(t, program, c.uid, c.role); got != c.want && !strings.HasSuffix(got, c.want) {
			t.Errorf("user %d: %s: got %q, want %q", c.uid, c.role, got, c.want)
		}
	}

	during := everything(t)
	for _, again := range []string{"", backend} {
		if got, err := r.Install(t.Context(), Request{User: "perigee-test", Port: DefaultPort, Backend: again}); got != want || err != nil {
			t.Errorf("again: %+v, %v", got, err)
		}
	}
	for _, q := range []Request{{User: "nobody", Port: DefaultPort}, {User: "perigee-test", Port: 8743}} {
		text := fmt.Sprintf("a redirect of the user perigee-test to port 8742 (%s) is installed; run perigee redirect remove first", backend)
		if _, err := r.Install(t.Context(), q); err == nil || err.Error() != text {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if now := everything(t); now != during {
		t.Errorf("installing again changed\n%s\nto\n%s", during, now)
	}

	removed, err := r.Remove(t.Context())
	if strings.Join(removed, ", ") != "rules of "+backend+", user perigee-test" || err != nil {
		t.Errorf("removed %q, %v", removed, err)
	}
	if after := everything(t); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	if got := as(t, program, u.UID, "tcp 203.0.113.1:443"); got != "cloud <nil>" {
		t.Errorf("after: %s", got)
	}
	if got, err := r.Status(t.Context()); got != (Status{}) || err != nil {
		t.Errorf("after: %+v, %v", got, err)
	}
	if removed, err := r.Remove(t.Context()); len(removed) != 0 || err != nil {
		t.Errorf("again: %q, %v", removed, err)
	}
}

// TestStateOfAnEarlierStart has the state of an install whose rules have ended with the system, or
// which are in another network namespace. Programs that are not root must not believe it.
func TestStateOfAnEarlierStart(t *testing.T) {
	if _, inside := inSystem(t, "all"); !inside {
		return
	}
	r, program := New(), program(t)
	_, err := r.Install(t.Context(), Request{User: "perigee-test", Port: DefaultPort, Backend: NFTables})
	must(t, err)
	s, err := r.readState()
	must(t, err)
	here := s.System
	boot, namespace, _ := strings.Cut(here, " ")
	for _, elsewhere := range []string{"", "01234567-89ab " + namespace, boot + " net:[1]"} {
		s.System = elsewhere
		must(t, r.writeState(s))
		if got := as(t, program, 61234, "installed"); !strings.HasPrefix(got, "{false perigee-test 0  8742 false ") || !strings.Contains(got, "run sudo perigee redirect install --user perigee-test again") {
			t.Errorf("%q: %s", elsewhere, got)
		}
	}
	_, err = r.Install(t.Context(), Request{User: "perigee-test", Port: DefaultPort}) // the rules are there
	must(t, err)
	if got := as(t, program, 61234, "installed"); !strings.HasPrefix(got, "{true perigee-test ") {
		t.Error(got)
	}
	if s, err := r.readState(); err != nil || s.System != here {
		t.Errorf("noted %+v, %v", s, err)
	}
}

// TestInstallAgainKeepsWhatWasMade changes a state that names the chains that iptables has made,
// and installs again.
func TestInstallAgainKeepsWhatWasMade(t *testing.T) {
	if _, inside := inSystem(t, "all"); !inside {
		return
	}
	r, before := New(), everything(t)
	_, err := r.Install(t.Context(), Request{User: "perigee-test", Port: DefaultPort, Backend: IPTables})
	must(t, err)
	s, err := r.readState()
	must(t, err)
	if len(s.Made) == 0 {
		t.Fatal("iptables has made no chains here")
	}
	changed := s
	changed.Port = 1
	must(t, r.writeState(changed))
	_, err = r.Install(t.Context(), Request{User: "perigee-test", Port: DefaultPort})
	must(t, err)
	if now, err := r.readState(); err != nil || !reflect.DeepEqual(now, s) {
		t.Errorf("noted %+v, %v, want %+v", now, err, s)
	}
	if _, err := r.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if after := everything(t); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// withSystemd has a system that systemd runs. Its systemctl notes what it is asked for and enables
// units; the file /run/refuse names a command that fails.
func withSystemd(t *testing.T) (asked func() string) {
	t.Helper()
	must(t, unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"))
	must(t, os.MkdirAll(running, 0o755))
	notes := filepath.Join(t.TempDir(), "asked")
	substitute(t, "systemctl", `echo "$@" >>`+notes+`
if [ "$1" = "$(cat /run/refuse 2>/dev/null)" ]; then echo the bus says no >&2; exit 1; fi
wants=/etc/systemd/system/multi-user.target.wants
case $1 in
enable) mkdir -p $wants; ln -sf ../$2 $wants/$2;;
disable) rm -f $wants/$3; rmdir $wants 2>/dev/null || true;;
esac`)
	return func() string {
		text, _ := os.ReadFile(notes)
		_ = os.Remove(notes)
		return strings.Join(strings.Split(strings.TrimSpace(string(text)), "\n"), ", ")
	}
}

// rootProgram is the test program where only root can change it.
func rootProgram(t *testing.T) string {
	t.Helper()
	must(t, os.Mkdir("/var/lib/bin", 0o755))
	path := "/var/lib/bin/program"
	text, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(path, text, 0o755))
	return path
}

// TestUnitRestoresTheRules makes the unit with the rules, and later without making rules, and
// removes it with them. A start of the system without the unit's success is a problem that the
// status names.
func TestUnitRestoresTheRules(t *testing.T) {
	backend, inside := inSystem(t, NFTables, IPTables)
	if !inside {
		return
	}
	asked, program := withSystemd(t), rootProgram(t)
	r, before := New(), everything(t)
	if got := as(t, program, 0, "persist perigee-test "+backend); !strings.HasPrefix(got, "{true perigee-test ") || !strings.HasSuffix(got, "true } <nil>") {
		t.Fatal(got)
	}
	if got := asked(); got != "daemon-reload, enable perigee-redirect.service" {
		t.Errorf("systemctl was asked for %s", got)
	}
	unit, err := os.ReadFile(unitFile)
	must(t, err)
	if want := "\nExecStart=\"/var/lib/bin/program\" redirect install --user perigee-test --port 8742 --backend " + backend + "\n"; !strings.Contains(string(unit), want) {
		t.Errorf("the unit is %s", unit)
	}
	if got := as(t, program, 61234, "installed"); !strings.HasSuffix(got, "true } <nil>") {
		t.Error(got)
	}
	during := everything(t)
	for _, role := range []string{"persist", "install"} {
		if got := as(t, program, 0, role+" perigee-test "+backend); !strings.HasSuffix(got, "true } <nil>") {
			t.Errorf("%s again: %s", role, got)
		}
	}
	if now := everything(t); now != during || asked() != "" {
		t.Errorf("installing again changed\n%s\nto\n%s", during, now)
	}

	// The system starts: rules are gone, and the state is of another start, until the unit runs its
	// command.
	must(t, r.removeRules(t.Context()))
	s, err := r.readState()
	must(t, err)
	here := s.System
	s.System, s.Made = "another start", nil
	must(t, r.writeState(s))
	if got := as(t, program, 61234, "installed"); !strings.HasPrefix(got, "{false perigee-test 0  8742 true ") || !strings.Contains(got, "run sudo systemctl restart perigee-redirect.service") {
		t.Error(got)
	}
	if got, err := r.Status(t.Context()); got.Installed || !got.Persistent || !strings.Contains(got.Problem, "run systemctl restart perigee-redirect.service") || err != nil {
		t.Errorf("status %+v, %v", got, err)
	}
	if _, err := r.Install(t.Context(), Request{User: "nobody", Port: DefaultPort}); err == nil || !strings.Contains(err.Error(), unitName) {
		t.Errorf("install for another user: %v", err)
	}
	if got := as(t, program, 0, "install perigee-test "+backend); !strings.HasSuffix(got, "true } <nil>") {
		t.Error(got)
	}
	if s, err := r.readState(); s.System != here || err != nil {
		t.Errorf("noted %+v, %v", s, err)
	}

	removed, err := r.Remove(t.Context())
	if got := strings.Join(removed, ", "); got != "rules of "+backend+", user perigee-test, unit perigee-redirect.service" || err != nil {
		t.Errorf("removed %q, %v", got, err)
	}
	if got := asked(); got != "disable --now perigee-redirect.service, reset-failed perigee-redirect.service, daemon-reload" {
		t.Errorf("systemctl was asked for %s", got)
	}
	if after := everything(t); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// TestUnitsThatCannotBeMade changes nothing in any of these cases.
func TestUnitsThatCannotBeMade(t *testing.T) {
	variant, inside := inSystem(t, "no-systemd", "program", "daemon-reload", "enable")
	if !inside {
		return
	}
	program, want := rootProgram(t), "the unit perigee-redirect.service could not be made: systemctl: the bus says no"
	switch variant {
	case "no-systemd":
		must(t, unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"))
		want = "--persist makes a unit of systemd, which does not run this system; leave out --persist"
	case "program":
		withSystemd(t)
		must(t, os.Chmod("/var/lib/bin", 0o775))
		want = "users other than root can change /var/lib/bin; install perigee where only root can write, such as /usr/local/bin"
	default:
		withSystemd(t)
		must(t, os.WriteFile("/run/refuse", []byte(variant), 0o644))
	}
	before := everything(t)
	if got := as(t, program, 0, "persist perigee-test nftables"); !strings.Contains(got, want) {
		t.Errorf("got %s", got)
	}
	if after := everything(t); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// substitute puts a script before a program. It has the path of the program in $real.
func substitute(t *testing.T, name, script string) {
	t.Helper()
	real, _ := find(name)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nreal="+real+"\n"+script+"\n"), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// TestKilledInstall kills an install at different points. The status shows that, and remove mends
// it.
func TestKilledInstall(t *testing.T) {
	cases := map[string]struct{ backend, tool, script, problem string }{
		"after-the-user":        {"nftables", "useradd", `"$real" "$@"; kill -9 $PPID`, "the user perigee-test was made for a redirect, and there are no rules"},
		"before-nft":            {"nftables", "nft", `kill -9 $PPID`, "the user perigee-test was made for a redirect, and there are no rules"},
		"before-ip6tables":      {"iptables", "ip6tables", `case $* in *-I*) kill -9 $PPID;; *) exec "$real" "$@";; esac`, "ip6tables has 0 rules for TCP, 0 for UDP and 0 others"},
		"after-the-filter-rule": {"iptables", "iptables", `"$real" "$@"; case $* in *-I*) kill -9 $PPID;; esac`, "iptables has 0 rules for TCP, 1 for UDP and 0 others; ip6tables has 0"},
	}
	names := []string{}
	for name := range cases {
		names = append(names, name)
	}
	name, inside := inSystem(t, names...)
	if !inside {
		return
	}
	c := cases[name]
	r, program, before := New(), program(t), everything(t)
	path := os.Getenv("PATH")
	substitute(t, c.tool, c.script)
	if got := as(t, program, 0, "install perigee-test "+c.backend); got != " signal: killed" && got != "signal: killed" {
		t.Errorf("install: %s", got)
	}
	t.Setenv("PATH", path)
	got, err := r.Status(t.Context())
	if got.Installed || !strings.Contains(got.Problem, c.problem) || !strings.Contains(got.Problem, "perigee redirect remove") || err != nil {
		t.Errorf("status %+v, %v", got, err)
	}
	if c.backend == IPTables {
		if _, err := r.Install(t.Context(), Request{User: "perigee-test", Port: DefaultPort}); err == nil || !strings.Contains(err.Error(), c.problem) {
			t.Errorf("install over it: %v", err)
		}
	} else if _, err := r.Install(t.Context(), Request{User: "perigee-other", Port: DefaultPort}); err == nil || !strings.Contains(err.Error(), c.problem) {
		t.Errorf("install beside it: %v", err)
	}
	if _, err := r.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if after := everything(t); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// TestFailedInstallIsUndone has a program fail in the middle.
func TestFailedInstallIsUndone(t *testing.T) {
	name, inside := inSystem(t, "iptables", "nftables", "root")
	if !inside {
		return
	}
	r, before := New(), everything(t)
	path := os.Getenv("PATH")
	q, want := Request{User: "perigee-test", Port: DefaultPort, Backend: name}, name+": the kernel says no"
	switch name {
	case IPTables:
		want = "ip6tables: the kernel says no"
		substitute(t, "ip6tables", `case $* in *REDIRECT*) echo the kernel says no >&2; exit 1;; *) exec "$real" "$@";; esac`)
	case NFTables:
		want = "nft: the kernel says no"
		substitute(t, "nft", `echo the kernel says no >&2; exit 1`)
	case "root":
		q, want = Request{User: "root", Port: DefaultPort}, "connections of root are not redirected, because perigee could not reach the cloud itself; choose another user"
	}
	if _, err := r.Install(t.Context(), q); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	t.Setenv("PATH", path)
	if after := everything(t); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// TestRemoveKeepsWhatIsInUse has a user that was there before, a user that has a process, and a
// table that has got other rules.
func TestRemoveKeepsWhatIsInUse(t *testing.T) {
	if _, inside := inSystem(t, "all"); !inside {
		return
	}
	r := New()
	_, err := r.Install(t.Context(), Request{User: "nobody", Port: 9000})
	must(t, err)
	removed, err := r.Remove(t.Context())
	if strings.Join(removed, ", ") != "rules of nftables" || err != nil {
		t.Errorf("removed %q, %v", removed, err)
	}
	_, err = user.Lookup("nobody")
	must(t, err)

	_, err = r.Install(t.Context(), Request{User: "perigee-test", Port: 9000, Backend: IPTables})
	must(t, err)
	tool(t, "iptables", "-t", "nat", "-A", "OUTPUT", "-p", "tcp", "--dport", "25", "-j", "ACCEPT")
	u, err := procgroup.Lookup("perigee-test")
	must(t, err)
	busy := exec.CommandContext(t.Context(), "sleep", "1000")
	u.Command(busy)
	must(t, busy.Start())
	_, err = r.Remove(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the rules are removed, but the user perigee-test could not be removed: userdel: ") ||
		!strings.Contains(err.Error(), "used by process "+strconv.Itoa(busy.Process.Pid)) {
		t.Errorf("got %v", err)
	}
	_ = busy.Process.Kill()
	_ = await.Result(t, busy.Wait, "the end of the program")
	if got, err := r.Status(t.Context()); got.Installed || got.User != "perigee-test" || !strings.Contains(got.Problem, "perigee redirect install --user perigee-test again") || err != nil {
		t.Errorf("status %+v, %v", got, err)
	}
	if _, err := r.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	rules := tool(t, "iptables-save") + tool(t, "ip6tables-save")
	if strings.Contains(rules, mark) || strings.Count(rules, "-A ") != 1 || strings.Contains(rules, "*filter") {
		t.Error(rules)
	}
	if left, _ := os.ReadDir("/var/lib"); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// TestChangedRules changes what is installed with the tools of the system.
func TestChangedRules(t *testing.T) {
	changes := map[string]string{
		"nftables-flush":  "nft flush chain inet perigee_redirect no_quic",
		"nftables-more":   "nft add rule inet perigee_redirect to_proxy meta skuid 5 tcp dport 443 redirect to :8742",
		"nftables-chain":  "nft delete chain inet perigee_redirect to_proxy",
		"iptables-twice":  "iptables -t nat -I OUTPUT -p tcp --dport 443 -m owner --uid-owner 65534 -m comment --comment perigee-redirect -j REDIRECT --to-ports 8742",
		"iptables-port":   "ip6tables -t nat -I OUTPUT -p tcp --dport 443 -m owner --uid-owner 65534 -m comment --comment perigee-redirect -j REDIRECT --to-ports 1",
		"iptables-user":   "iptables -I OUTPUT -p udp --dport 443 -m owner --uid-owner 5 -m comment --comment perigee-redirect -j REJECT",
		"iptables-delete": "iptables -t nat -F",
	}
	names := []string{}
	for name := range changes {
		names = append(names, name)
	}
	name, inside := inSystem(t, names...)
	if !inside {
		return
	}
	r, before := New(), everything(t)
	backend, _, _ := strings.Cut(name, "-")
	_, err := r.Install(t.Context(), Request{User: "nobody", Port: DefaultPort, Backend: backend})
	must(t, err)
	words := strings.Fields(changes[name])
	tool(t, words[0], words[1:]...)
	got, err := r.Status(t.Context())
	if got.Installed || !strings.Contains(got.Problem, "the rules of "+backend+" are not complete: ") || err != nil {
		t.Errorf("status %+v, %v", got, err)
	}
	if _, err := r.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if after := everything(t); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// TestOldIPTables has the tables that the kernel makes at their first use, and keeps.
func TestOldIPTables(t *testing.T) {
	if !installed("iptables-legacy") {
		t.Skip("iptables-legacy is not installed")
	}
	if _, inside := inSystem(t, "all"); !inside {
		return
	}
	for _, name := range []string{"iptables", "ip6tables"} {
		substitute(t, name, `exec `+name+`-legacy "$@"`)
		substitute(t, name+"-save", `exec `+name+`-legacy-save "$@"`)
		for _, table := range []string{"nat", "filter"} {
			if _, err := run(t.Context(), "", name, "-t", table, "-S"); err != nil {
				t.Skipf("the kernel has no %s: %v", name, err)
			}
		}
	}
	r, before := New(), everything(t)
	serve(t)
	got, err := r.Install(t.Context(), Request{User: "nobody", Port: DefaultPort, Backend: IPTables})
	must(t, err)
	if said := as(t, program(t), got.UID, "tcp ["+far6+"]:443"); said != "proxy [2001:db8::99]:443 <nil>" {
		t.Error(said)
	}
	if _, err := r.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if after := everything(t); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

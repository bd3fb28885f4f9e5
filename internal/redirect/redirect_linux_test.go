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

	"perigee/internal/perigeetest/await"
	"perigee/internal/runas"
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
	u, err := runas.Lookup("perigee-test")
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
		{u.UID, "installed", fmt.Sprintf("{true perigee-test %d %s 8742 } <nil>", u.UID, backend)},
		{u.UID, "status", "only root can read and change the rules of the system; run sudo perigee redirect status"},
		{0, "installed", fmt.Sprintf("{true perigee-test %d %s 8742 } <nil>", u.UID, backend)},
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

// TestStateOfAnEarlierStart has the state of an install whose rules have ended with the system, or which are in another network
// namespace. Programs that are not root must not believe it.
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
		if got := as(t, program, 61234, "installed"); !strings.HasPrefix(got, "{false ") || !strings.Contains(got, "run sudo perigee redirect install --user perigee-test again") {
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

// TestInstallAgainKeepsWhatWasMade changes a state that names the chains that iptables has made, and installs again.
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

// substitute puts a script before a program. It has the path of the program in $real.
func substitute(t *testing.T, name, script string) {
	t.Helper()
	real, _ := find(name)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nreal="+real+"\n"+script+"\n"), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// TestKilledInstall kills an install at different points. The status shows that, and remove mends it.
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

// TestRemoveKeepsWhatIsInUse has a user that was there before, a user that has a process, and a table that has got other rules.
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
	u, err := runas.Lookup("perigee-test")
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
	if got, err := r.Status(t.Context()); got.Installed || !strings.Contains(got.Problem, "perigee redirect install --user perigee-test again") || err != nil {
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

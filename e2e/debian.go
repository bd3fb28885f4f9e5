package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// debianInstall is an empty Debian with systemd, and what it takes to boot it in namespaces.
const debianInstall = "debian"

// debianPackages are in the empty Debian beside its essential packages.
const debianPackages = "ca-certificates,systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd"

func debianArchive() string { return cached(debianInstall, "root.tar") }

func installEmptyDebian(ctx context.Context) (fresh bool, err error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return false, errors.New("this needs Linux on amd64")
	}
	if os.Getuid() != 0 {
		return false, errors.New("only root can boot a Debian in namespaces")
	}
	probe := "mount -t tmpfs tmpfs /opt && mkdir /opt/cgroup && mount -t cgroup2 cgroup2 /opt/cgroup"
	unshare := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--cgroup", "--uts", "--ipc", "--net", "--fork", "--", "sh", "-c", probe)
	if output, err := unshare.CombinedOutput(); err != nil {
		return false, fmt.Errorf("namespaces are not permitted here: %w: %s", err, firstLines(string(output), 2))
	}
	if _, err := os.Stat(debianArchive()); err == nil {
		return false, nil
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		if err := installDebian(ctx, "mmdebstrap"); err != nil {
			return false, err
		}
	}
	if err := os.MkdirAll(cached(debianInstall), 0o755); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	unfinished := debianArchive() + ".unfinished.tar"
	cmd := exec.CommandContext(ctx, "mmdebstrap", "--quiet", "--variant=essential", "--include="+debianPackages, "bookworm", unfinished)
	if output, err := cmd.CombinedOutput(); err != nil {
		return false, fmt.Errorf("mmdebstrap: %w: %s", err, lastBytes(string(output), 300))
	}
	return true, os.Rename(unfinished, debianArchive())
}

// A debian is a machine with an empty Debian, in which systemd runs. It is made of namespaces: files,
// processes, users and network are its own.
type debian struct {
	root    string // its files, from outside
	holder  *exec.Cmd
	holding io.Closer // its input
	pid     int       // of systemd
}

// debianUser is an ordinary user of a debian.
const debianUser = "dev"

// prepareDebian makes systemd the first process of the namespaces in which it runs. $1 is the root, $2
// a directory that appears as /opt/clients. The kernel's settings are those of the machine outside,
// so they are read-only. The root is no chroot, in which no unit could have users of its own.
const prepareDebian = `set -e
root=$1
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys" && mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
	touch "$root/dev/$device"
	mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/opt/clients"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount --bind -o ro "$2" "$root/opt/clients"
cd "$root"
pivot_root . mnt
umount -l /mnt
exec env -i container=perigee PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system`

// holdDebian runs $1 in namespaces and in a control group of their own, which it removes at the end. It
// ends them when its input ends, which is when the process that holds the pipe is gone.
const holdDebian = `set -e
script=$1; shift
exec 3<&0
mount -t tmpfs tmpfs /media
mkdir /media/cgroup
mount -t cgroup2 cgroup2 /media/cgroup
group=/media/cgroup/perigee-e2e-$$
mkdir "$group"
echo 0 >"$group/cgroup.procs"
unshare --mount --pid --cgroup --uts --ipc --net --fork --kill-child -- sh -c "$script" sh "$@" &
machine=$!
(cat <&3 >/dev/null; kill -KILL $(cat /proc/$machine/task/$machine/children)) &
wait $machine || true
echo 0 >/media/cgroup/cgroup.procs
find "$group" -depth -type d -exec rmdir {} +`

// bootDebian boots an empty Debian with one ordinary user.
func bootDebian(ctx context.Context, s *stage, name, clients string) (_ *debian, err error) {
	d := &debian{root: filepath.Join(s.dir, name)}
	if err := os.MkdirAll(d.root, 0o755); err != nil {
		return nil, err
	}
	if output, err := exec.CommandContext(ctx, "tar", "-C", d.root, "-xf", debianArchive()).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("tar: %w: %s", err, lastBytes(string(output), 300))
	}
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d.holder = exec.CommandContext(ctx, "unshare", "--mount", "--", "sh", "-c", holdDebian, "sh", prepareDebian, d.root, clients)
	d.holder.Stdout, d.holder.Stderr = log, log
	if d.holding, err = d.holder.StdinPipe(); err != nil {
		return nil, err
	}
	if err := d.holder.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			text, _ := os.ReadFile(log.Name())
			err = fmt.Errorf("boot a Debian: %w: %s", err, lastBytes(string(text), 500))
			d.close()
		}
	}()
	if err := d.findSystemd(ctx); err != nil {
		return nil, err
	}
	// It ends with status 1 if some unit has failed, such as one that needs hardware.
	state, _ := d.run(ctx, "systemctl", "is-system-running", "--wait")
	if state = strings.TrimSpace(state); state != "running" && state != "degraded" {
		return nil, fmt.Errorf("systemctl is-system-running: %q", state)
	}
	_, err = d.run(ctx, "useradd", "--create-home", "--shell", "/bin/sh", debianUser)
	return d, err
}

// findSystemd waits until the grandchild of the holder is systemd: unshare is in between.
func (d *debian) findSystemd(ctx context.Context) error {
	for {
		for _, child := range childrenOf(d.holder.Process.Pid) {
			for _, grandchild := range childrenOf(child) {
				if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", grandchild)); string(name) == "systemd\n" {
					d.pid = grandchild
				}
			}
		}
		if d.pid > 0 {
			if _, err := d.run(ctx, "systemctl", "show", "--property=Version"); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func childrenOf(pid int) (children []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

func (d *debian) close() {
	_ = d.holding.Close()
	_ = d.holder.Wait()
}

// inside is a command that runs in the namespaces, as root.
func (d *debian) inside(ctx context.Context, args ...string) *exec.Cmd {
	enter := []string{"-t", strconv.Itoa(d.pid), "--all", "--root", "--wd", "--", "/usr/bin/env", "-i", "HOME=/root", "LC_ALL=C",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
}

// run runs a command as root and returns what it prints.
func (d *debian) run(ctx context.Context, args ...string) (string, error) {
	output, err := d.inside(ctx, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, lastBytes(string(output), 1500))
	}
	return string(output), err
}

// runAs runs a shell command in a session of the ordinary user, whose service manager runs.
func (d *debian) runAs(ctx context.Context, command string) (string, error) {
	return d.run(ctx, "runuser", "--login", debianUser, "--command", command)
}

// files lists what is on the disk, without the kernel's file systems, what is temporary, what dpkg,
// apt and the journal keep of their own, and what the user adds to a home by logging in.
func (d *debian) files() ([]string, error) {
	var list []string
	skip := []string{"proc", "sys", "dev", "run", "tmp", "opt/clients", "var/log", "var/cache", "var/lib/dpkg", "var/lib/systemd", "var/tmp"}
	err := filepath.WalkDir(d.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(d.root, path)
		if slices.Contains(skip, name) {
			return filepath.SkipDir
		}
		list = append(list, name)
		return nil
	})
	return list, err
}

// added returns the files that have come since an earlier list, and an error if one is gone.
func (d *debian) added(before []string) (added []string, err error) {
	after, err := d.files()
	if err != nil {
		return nil, err
	}
	had, has := map[string]bool{}, map[string]bool{}
	for _, name := range after {
		has[name] = true
	}
	for _, name := range before {
		had[name] = true
		if !has[name] && !strings.HasSuffix(name, "-") { // passwd- is a backup
			return nil, fmt.Errorf("%s is gone", name)
		}
	}
	for _, name := range after {
		if !had[name] {
			added = append(added, name)
		}
	}
	return added, nil
}

// http is a client that connects inside.
func (d *debian) http() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dialIn(ctx, fmt.Sprintf("/proc/%d/ns/net", d.pid), address)
		}}}
}

// onlyBelow returns an error if the machine has other files than before and below directories.
func (d *debian) onlyBelow(before []string, dirs ...string) error {
	added, err := d.added(before)
	if err != nil {
		return err
	}
	foreign := slices.DeleteFunc(added, func(name string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") })
	})
	if len(foreign) > 0 {
		return fmt.Errorf("these files are left: %s", strings.Join(foreign, " "))
	}
	return nil
}

// ask asks the perigee inside, and returns an error if the answer is not that of the simulator.
func (d *debian) ask(ctx context.Context) error {
	body := `{"model":"gemini-3-flash","messages":[{"role":"user","content":"hello"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:8741/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := d.http().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !simulatedHello.Match(answer)) {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, lastBytes(string(answer), 500))
	}
	return err
}

package supervisor

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"perigee/internal/lib/atomicfile"
	"perigee/internal/lib/procgroup"
)

// A process of another user has its directories in the home of that user. Perigee, which may be
// root, makes and removes them only by scripts of that user, so that a link in them cannot lead
// perigee to a file of another user.

// certificates is the variable with the certificates that a process trusts. A process of another
// user gets a copy of the file.
const certificates = "SSL_CERT_FILE"

func (s *Supervisor) certificateCopy() string { return filepath.Join(s.o.Home, "ca-bundle.pem") }

// userDirs makes the directories HOME and TMPDIR, and the workspace if it is below HOME, and writes
// the certificates.
const userDirs = `
fail() { echo "$1" >&2; exit 1; }
home=$1 temp=$2 workspace=$3 binary=$4 certificates=$5
mkdir -p -- "$home" "$temp" || exit 1
case $workspace in "$home"/*) mkdir -p -- "$workspace" || exit 1;; esac
[ -r "$workspace" ] && [ -x "$workspace" ] || fail "the user $(id -un) may not read the workspace $workspace; change its permissions, or set workspace"
[ -x "$binary" ] || fail "the user $(id -un) may not run $binary; change the permissions of the file and its directories, or set binary"
[ -z "$certificates" ] || { cat >"$certificates.new" && mv -f -- "$certificates.new" "$certificates"; }
`

func (s *Supervisor) directoriesOfUser(ctx context.Context, parent string) (*tempDir, error) {
	if err := os.MkdirAll(s.o.LockDir, 0o700); err != nil {
		return nil, err
	}
	removeAbandoned(ctx, s.o.LockDir, parent, s.o.User)
	var bundle []byte
	target := ""
	if source := cmp.Or(s.o.Env[certificates], s.o.Variables[certificates]); source != "" {
		text, err := os.ReadFile(source)
		if err != nil {
			return nil, fmt.Errorf("certificates of the language server: %w", err)
		}
		bundle, target = text, s.certificateCopy()
	}
	name := "run-" + rand.Text()
	lock, err := atomicfile.Lock(ctx, filepath.Join(s.o.LockDir, name+lockSuffix), time.Second)
	if err != nil {
		return nil, err
	}
	d := &tempDir{path: filepath.Join(parent, name), lock: lock, user: s.o.User}
	workspace := cmp.Or(s.o.Workspace, s.o.Home)
	if _, err := s.o.User.Run(ctx, bundle, userDirs, s.o.Home, d.path, workspace, s.o.Command[0], target); err != nil {
		d.remove()
		return nil, err
	}
	return d, nil
}

// become makes a command run as the user of the directory. It gets a session of its own: a process
// of another user could write to the terminal of perigee as if it were typed there, and sudo would
// put it into another group, where it is not found.
func (d *tempDir) become(cmd *exec.Cmd) {
	if d.user == nil {
		return
	}
	procgroup.Detach(cmd)
	d.user.Command(cmd)
}

// outOfReach reports whether signals have to be sent by a program of the user.
func (d *tempDir) outOfReach() bool { return d.user != nil && !d.user.MaySignal() }

func (d *tempDir) terminate(p *os.Process) {
	if d.outOfReach() {
		d.user.Signal(context.Background(), p.Pid, "TERM")
	} else {
		procgroup.Terminate(p)
	}
}

func (d *tempDir) kill(p *os.Process) {
	if d.outOfReach() {
		d.user.Signal(context.Background(), p.Pid, "KILL")
		return
	}
	_ = procgroup.Kill(p) // there may be no process left
}

// killRest kills the processes that p has left, or that an unknown process has left if p is nil,
// if perigee itself cannot kill them. It returns false if perigee can.
func (d *tempDir) killRest(p *os.Process) bool {
	if !d.outOfReach() {
		return false
	}
	for deadline := time.Now().Add(restPatience); time.Now().Before(deadline); {
		if p != nil {
			d.user.Signal(context.Background(), p.Pid, "KILL")
		}
		if d.user.KillMarked(context.Background(), "TMPDIR="+d.path) == 0 {
			break
		}
	}
	return true
}

const restPatience = 5 * time.Second

// byScript reports whether a process is started by a script: sudo passes on neither the environment
// nor the directory, and arguments could be read by every user.
func (l launch) byScript() bool { return l.temp.user != nil && l.temp.user.Sudo }

func (l launch) script() string { return filepath.Join(l.temp.path, "start") }

// writeScript writes the script of a process that needs one. It removes itself.
func (l launch) writeScript(ctx context.Context) error {
	if !l.byScript() {
		return nil
	}
	var b strings.Builder
	b.WriteString("rm -f -- \"$0\"\numask 077\nunset $(env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p' | grep -vx PATH)\n")
	for _, assignment := range l.env {
		name, value, _ := strings.Cut(assignment, "=")
		fmt.Fprintf(&b, "export %s=%s\n", name, procgroup.Quote(value))
	}
	fmt.Fprintf(&b, "cd %s || exit 1\nexec", procgroup.Quote(l.dir))
	for _, word := range l.argv {
		b.WriteString(" " + procgroup.Quote(word))
	}
	b.WriteByte('\n')
	_, err := l.temp.user.Run(ctx, []byte(b.String()), `cat >"$1"`, l.script())
	return err
}

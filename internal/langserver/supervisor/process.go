package supervisor

import (
	"bytes"
	"io"
	"os/exec"
	"time"

	"perigee"
	"perigee/internal/lib/procgroup"
)

const (
	groupPatience = 5 * time.Second // for the end of a group that was killed
	groupPoll     = 5 * time.Millisecond
)

// drainOutput is how long the output of a process that has ended is read.
const drainOutput = time.Second

// A launch has all parameters of the start of a process.
type launch struct {
	argv, env []string
	dir       string
	temp      *tempDir
	csrf      perigee.Secret
	input     []byte // of stdin, which then ends
	holdInput bool   // stdin stays open instead; the process ends when it closes
	pipe      *parentPipe
	out       *output
}

// remove deletes the files that only this process needs.
func (l launch) remove() {
	l.pipe.close()
	l.temp.remove() // as its user, if it has one
}

// A child is a process that was started.
type child struct {
	pid  int
	out  *output
	hung chan string   // receives the reason why it is given up
	done chan struct{} // closed when it and its group have ended

	exit   string // how it ended, after done
	failed bool   // its last output may explain why it ended; set after done

	terminate func() // asks the group to end
	kill      func()
}

// giveUp gives a process up. It never blocks.
func (c *child) giveUp(reason string) {
	select {
	case c.hung <- reason:
	default:
	}
}

// awaitEnd waits for the end of a process, and reports whether it has ended. It does not wait any
// longer when hurry is closed, which may be nil.
func (c *child) awaitEnd(patience time.Duration, hurry <-chan struct{}) bool {
	select {
	case <-c.done:
		return true
	case <-hurry:
	case <-time.After(patience):
	}
	return false
}

// startProcess starts a process in a group of its own, with umask 077. Its output until its end
// goes to l.out.
func startProcess(l launch) (*child, error) {
	cmd := exec.Command(l.argv[0], l.argv[1:]...)
	cmd.Dir, cmd.Env = l.dir, l.env
	if l.byScript() {
		cmd = exec.Command("/bin/sh", l.script())
		cmd.Dir = "/"
	}
	cmd.Stdout, cmd.Stderr = l.out, l.out
	cmd.WaitDelay = drainOutput
	var lifeLine io.Closer
	if l.holdInput {
		stdin, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		lifeLine = stdin
	} else {
		cmd.Stdin = bytes.NewReader(l.input)
	}
	c := &child{out: l.out, hung: make(chan string, 1), done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runGroup(cmd, l.temp, started)
		if state := cmd.ProcessState; state != nil {
			c.exit = state.String()
			// a process that is killed does not print a reason
			c.failed = !state.Success() && c.exit != "signal: killed"
		}
		close(c.done)
	}()
	if err := <-started; err != nil {
		<-c.done
		if lifeLine != nil {
			_ = lifeLine.Close()
		}
		return nil, err
	}
	c.pid = cmd.Process.Pid
	c.terminate = func() {
		l.pipe.close()
		if lifeLine != nil {
			_ = lifeLine.Close()
		}
		l.temp.terminate(cmd.Process)
	}
	c.kill = func() { l.temp.kill(cmd.Process) }
	return c, nil
}

// runGroup runs a process to its end and then kills the remaining processes of its group, and on
// Linux also processes that it started in other groups.
//
// On Linux the thread stays with the goroutine from fork to the end of the process, and ends with
// it: the kernel kills the process when the thread ends with perigee, so that SIGKILL of perigee
// leaves no language server.
func runGroup(cmd *exec.Cmd, temp *tempDir, started chan<- error) {
	procgroup.Own(cmd)
	procgroup.DieWithThread(cmd)
	setUmask(cmd)
	temp.become(cmd)
	err := cmd.Start()
	started <- err
	if err != nil {
		return
	}
	if awaitExit(cmd.Process) {
		temp.kill(cmd.Process)
	}
	_ = cmd.Wait()
	if !temp.killRest(cmd.Process) {
		killLeft(cmd.Process, temp.path)
	}
}

// umaskByShell lets a shell set the umask, because the umask of perigee is shared by all of its
// threads.
func umaskByShell(cmd *exec.Cmd) {
	if cmd.Err == nil {
		cmd.Args = append([]string{"sh", "-c", `umask 077; exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}
}

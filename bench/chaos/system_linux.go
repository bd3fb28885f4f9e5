package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel end the child when this process is gone.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// smallDisk makes a directory, with a file system of its own where that is permitted.
func smallDisk(dir, size string) (_ string, limited bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", false, err
	}
	err = unix.Mount("perigee-chaos", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size="+size+",mode=0700")
	return dir, err == nil, nil
}

func unmount(dir string) { _ = unix.Unmount(dir, unix.MNT_DETACH) }

// fillDisk leaves no byte on the disk of the data, or else forbids the process to make any file
// longer. It returns how, and how to undo it.
func fillDisk(w *world) (how string, undo func(), err error) {
	if !w.limited {
		pid := w.perigee.cmd.Process.Pid
		var before unix.Rlimit
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &before); err != nil {
			return "", nil, err
		}
		small := unix.Rlimit{Cur: 0, Max: before.Max}
		err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &small, nil)
		return "RLIMIT_FSIZE", func() { _ = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &before, nil) }, err
	}
	filler, err := os.Create(filepath.Join(w.data, "filler"))
	if err != nil {
		return "", nil, err
	}
	defer filler.Close()
	zeros := make([]byte, 1<<20)
	for size := len(zeros); size > 0; {
		if _, err := filler.Write(zeros[:size]); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			return "", nil, err
		}
	}
	return "tmpfs", func() { _ = os.Remove(filler.Name()) }, nil
}

// fewDescriptors lets a process open hardly any file or connection more than it has.
func fewDescriptors(p *process) (undo func(), err error) {
	pid := p.cmd.Process.Pid
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		return nil, err
	}
	few := unix.Rlimit{Cur: uint64(p.descriptors() + 2), Max: before.Max}
	return func() { _ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil) }, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &few, nil)
}

// freeze stops processes for a time.
func freeze(ctx context.Context, pids []int, d time.Duration) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	wait(ctx, d)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// diskUse adds up the blocks of the files below each entry of a directory. Files of the database
// count together, and the file that fills the disk does not count.
func diskUse(dir string) map[string]int64 {
	sum := map[string]int64{}
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // it has been deleted meanwhile
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		inside, _ := filepath.Rel(dir, path)
		name, _, _ := strings.Cut(inside, string(os.PathSeparator))
		if strings.Contains(name, ".db") {
			name = "database"
		}
		if ok && name != "filler" {
			sum[name] += stat.Blocks * 512
		}
		return nil
	})
	return sum
}

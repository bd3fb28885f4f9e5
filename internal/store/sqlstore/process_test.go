package sqlstore

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

// Some promises are about the end of a process or about its user. For these the test binary starts
// itself again as one of the children.
const (
	childVariable = "PERIGEE_TEST_CHILD"
	childPath     = "PERIGEE_TEST_PATH"
)

var children = map[string]func(path string){
	"write until killed": writeUntilKilled,
	"talk until killed":  talkUntilKilled,
	"read":               readAsNobody,
	"stop in migration":  stopInMigration,
	"stop after copy":    stopAfterCopy,
}

func child(t *testing.T, name, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childVariable+"="+name, childPath+"="+path)
	cmd.Stderr = os.Stderr
	return cmd
}

const crashBatch = 50

// writeUntilKilled saves batch after batch and says so after each, until it is killed.
func writeUntilKilled(path string) {
	s, err := Open(context.Background(), Options{Path: path})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	pid := os.Getpid()
	for n := 0; ; n++ {
		batch := make([]perigee.Call, crashBatch)
		for i := range batch {
			batch[i] = fullCall(fmt.Sprintf("%d-%d-%d", pid, n, i))
			batch[i].Model = fmt.Sprintf("%d-%d", pid, n)
		}
		if err := s.SaveCalls(context.Background(), batch); err != nil {
			fmt.Println("error:", err)
			return
		}
		fmt.Println("saved")
	}
}

// stopInMigration brings a database up to date, until the transaction of the first step asks for the
// time, and waits there until it is killed.
func stopInMigration(path string) {
	_, err := Open(context.Background(), Options{Path: path, Now: func() time.Time {
		fmt.Println("waiting")
		select {}
	}})
	fmt.Println("error:", err)
}

// A stopAtCopy is a log whose writer waits until it is killed, when the database has been copied.
type stopAtCopy struct{}

func (stopAtCopy) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("copied the database")) {
		fmt.Println("waiting")
		select {}
	}
	return len(p), nil
}

func stopAfterCopy(path string) {
	_, err := Open(context.Background(), Options{Path: path, Logger: slog.New(slog.NewTextHandler(stopAtCopy{}, nil))})
	fmt.Println("error:", err)
}

// A process that is killed while it brings the database up to date has changed nothing, and the
// next one does it.
func TestKilledWhileMigrating(t *testing.T) {
	for _, where := range []string{"stop in migration", "stop after copy"} {
		options := schema14(t, freshSQLite)
		cmd := child(t, where, options.Path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if line != "waiting\n" {
			t.Fatalf("%s: it says %q, %v", where, line, err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := await.Result(t, cmd.Wait, "the end of the process"); err == nil {
			t.Fatal("it was not killed")
		}
		readOnly := options
		readOnly.ReadOnly = true
		if _, err := Open(t.Context(), readOnly); perigee.AsError(err).Cause != ErrOlder {
			t.Errorf("%s: the database is not as it was: %v", where, err)
		}
		s, err := Open(t.Context(), options)
		if err != nil {
			t.Fatalf("%s: the next start: %v", where, err)
		}
		if calls := mustCalls(t, s, perigee.CallQuery{}); len(calls) != 1 {
			t.Errorf("%s: %d calls", where, len(calls))
		}
		checkSums(t, s)
		mustClose(t, s)
		if left, _ := filepath.Glob(options.Path + ".before-*"); len(left) != 1 {
			t.Errorf("%s: copies %q, want one", where, left)
		}
	}
}

func TestKilledWhileSaving(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	confirmed := 0
	for _, batches := range []int{1, 7, 40} {
		cmd := child(t, "write until killed", path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range batches {
			if !lines.Scan() || lines.Text() != "saved" {
				t.Fatalf("the writer said %q", lines.Text())
			}
			confirmed++
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what it still managed to say
			confirmed++
		}
		if err := await.Result(t, cmd.Wait, "the end of the writer"); err == nil {
			t.Fatal("the writer was not killed")
		}

		s, err := Open(t.Context(), Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		var verdict string
		if err := s.db.Write.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
			t.Errorf("integrity: %q, %v", verdict, err)
		}
		rows := mustUsage(t, s, perigee.UsageQuery{By: perigee.ByModel})
		for _, r := range rows {
			if r.Calls != crashBatch {
				t.Errorf("batch %s has %d calls, want all %d", r.Group, r.Calls, crashBatch)
			}
		}
		if len(rows) < confirmed {
			t.Errorf("%d batches are there, %d were confirmed", len(rows), confirmed)
		}
		checkSums(t, s)
		mustClose(t, s)
	}
}

// readAsNobody reads a database as a user without write access to its directory. Root always has
// it, so the process changes its user first.
func readAsNobody(path string) {
	if err := dropRoot(); err != nil {
		fmt.Println("error:", err)
		return
	}
	if file, err := os.Create(filepath.Join(filepath.Dir(path), "probe")); err == nil {
		_ = file.Close()
		fmt.Println("error: the directory is writable")
		return
	}
	s, err := Open(context.Background(), Options{Path: path, ReadOnly: true})
	if err != nil {
		e := perigee.AsError(err)
		fmt.Printf("%s: %s\n", e.Class, e.Error())
		return
	}
	rows, err := s.Usage(context.Background(), perigee.UsageQuery{})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	var calls int64
	for _, r := range rows {
		calls += r.Calls
	}
	fmt.Println(calls, "calls")
	_ = s.Close()
}

func TestReadOnlyDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean nothing here")
	}
	kill := func(t *testing.T, path string) {
		cmd := child(t, "write until killed", path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		bufio.NewScanner(out).Scan()
		_ = cmd.Process.Kill()
		_ = await.Result(t, cmd.Wait, "the end of the writer")
	}
	tests := []struct {
		name    string
		prepare func(t *testing.T, path string)
		want    func(out string) bool
	}{
		{"no daemon ever ran", func(*testing.T, string) {},
			func(out string) bool { return strings.HasPrefix(out, "not_found: no calls recorded yet") }},
		{"a daemon ran and ended", func(t *testing.T, path string) {
			s, err := Open(t.Context(), Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			mustSave(t, s, fullCall("a"), fullCall("b"))
			mustClose(t, s)
		}, func(out string) bool { return out == "2 calls\n" }},
		{"a daemon is running", func(t *testing.T, path string) {
			mustSave(t, open(t, path), fullCall("a"), fullCall("b"), fullCall("c"))
		}, func(out string) bool { return out == "3 calls\n" }},
		{"a daemon was killed", kill,
			func(out string) bool { return strings.HasSuffix(out, "0 calls\n") && out != "0 calls\n" }},
		{"its log has lost its index", func(t *testing.T, path string) {
			kill(t, path)
			if err := os.Remove(path + "-shm"); err != nil {
				t.Fatal(err)
			}
		}, func(out string) bool {
			return strings.HasPrefix(out, "unavailable: ") && strings.Contains(out, "writable")
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "data")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "perigee.db")
			test.prepare(t, path)
			openToAll(t, filepath.Dir(root), root, dir, path, path+"-wal", path+"-shm")
			if err := os.Chmod(dir, 0o555); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
			out, err := child(t, "read", path).Output()
			if err != nil {
				t.Fatal(err)
			}
			if !test.want(string(out)) {
				t.Errorf("the reader said %q", out)
			}
		})
	}
}

// openToAll lets another user get to the files and read them, as far as they exist.
func openToAll(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			continue
		}
		mode := os.FileMode(0o444)
		if info.IsDir() {
			mode = 0o755
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
}

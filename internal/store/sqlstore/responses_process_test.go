package sqlstore

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

// talkUntilKilled saves the responses of a conversation, removes some, and says so after each,
// until the process is killed. What it saves can be made again from its number.
func talkUntilKilled(path string) {
	s, err := Open(context.Background(), Options{Path: path, Now: atNoon})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	s.LimitResponses(300 << 10)
	var c conversation
	for n := range endless {
		r := crashTurn(&c, fmt.Sprint(os.Getpid()), n)
		if err := s.SaveResponse(context.Background(), r); err != nil {
			fmt.Println("error:", err)
			return
		}
		fmt.Println("saved", n)
		if n%7 == 3 {
			if err := s.DeleteResponse(context.Background(), r.Key, r.ID); err != nil {
				fmt.Println("error:", err)
				return
			}
		}
	}
}

const endless = 1 << 20

// crashTurn is turn n of a conversation that begins anew now and then.
func crashTurn(c *conversation, writer string, n int) *perigee.StoredResponse {
	if n%11 == 0 {
		*c = conversation{}
	}
	return c.goOn(fmt.Sprintf("%s-%d", writer, n), n%2 == 0, strings.Repeat(fmt.Sprint(n%10), 2000), "fine")
}

func TestKilledWhileResponsesAreSaved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perigee.db")
	for _, turns := range []int{1, 9, 60} {
		cmd := child(t, "talk until killed", path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines, saved := bufio.NewScanner(out), -1
		for (saved < turns) && lines.Scan() {
			if _, err := fmt.Sscanf(lines.Text(), "saved %d", &saved); err != nil {
				t.Fatalf("the writer said %q", lines.Text())
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what it still managed to say
			_, _ = fmt.Sscanf(lines.Text(), "saved %d", &saved)
		}
		if err := await.Result(t, cmd.Wait, "the end of the writer"); err == nil {
			t.Fatal("the writer was not killed")
		}
		checkAfterKill(t, path, fmt.Sprint(cmd.Process.Pid), saved)
	}
}

// checkAfterKill reads every response that was said to be saved, neither deleted since nor removed
// for the limit.
func checkAfterKill(t *testing.T, path, writer string, saved int) {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: path, Now: atNoon})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	var verdict string
	if err := s.db.Write.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity: %q, %v", verdict, err)
	}
	checkResponses(t, s)
	var c conversation
	found, gone := 0, 0
	for n := range saved + 1 {
		want := crashTurn(&c, writer, n)
		got, err := s.Response(t.Context(), want.Key, want.ID)
		switch e := perigee.AsError(err); {
		case e != nil && e.Class == perigee.ClassNotFound && (n%7 == 3 || found == 0):
			gone++ // deleted, or among the oldest
		case err != nil || !sameResponse(got, want):
			t.Fatalf("response %d of %d: %+v, %v", n, saved, got, err)
		default:
			found++
		}
	}
	if found == 0 || saved < 30 && gone > saved/7+1 {
		t.Errorf("%d of %d responses are there", found, saved+1)
	}
}

// TestFullDiskForResponses: what was confirmed stays, what did not fit leaves nothing behind, and
// deleting works on a full disk.
func TestFullDiskForResponses(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "perigee.db"))
	var c conversation
	var kept []*perigee.StoredResponse
	turn := func(n int) *perigee.StoredResponse {
		return c.goOn(fmt.Sprint("call", n), n%2 == 0, strings.Repeat(fmt.Sprint(n%10), 3000), "fine")
	}
	limitPages := func(more int) {
		t.Helper()
		var pages int
		if err := s.db.Write.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
			t.Fatal(err)
		}
		if _, err := s.db.Write.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages+more)); err != nil {
			t.Fatal(err)
		}
	}
	mustKeep(t, s, turn(0))
	kept = append(kept, c.last)
	limitPages(20)
	for n := 1; ; n++ {
		r := turn(n)
		if err := s.SaveResponse(t.Context(), r); err != nil {
			if e := wantClass(t, err, perigee.ClassUnavailable); !strings.Contains(e.Hint, "free some space") {
				t.Errorf("got %q", e.Error())
			}
			break
		}
		kept = append(kept, r)
	}
	for _, r := range kept {
		wantResponse(t, s, r)
	}
	checkWhole(t, s)
	for _, r := range kept[:len(kept)-1] {
		if err := s.DeleteResponse(t.Context(), r.Key, r.ID); err != nil {
			t.Fatal(err)
		}
	}
	wantResponse(t, s, kept[len(kept)-1])
	limitPages(1 << 20)
	mustKeep(t, s, c.last)
	wantResponse(t, s, c.last)
	checkWhole(t, s)
}

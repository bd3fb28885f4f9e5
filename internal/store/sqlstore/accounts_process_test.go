package sqlstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/testing/perigeetest"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

// accountsVariable names the database that the test binary, started again, changes until it is
// killed.
const accountsVariable = "PERIGEE_TEST_ACCOUNTS"

const kills = 50

// TestKilledWhileChangingAccounts kills a process that adds, rotates, prefers and removes accounts.
// What it had confirmed must be there, what it had begun may be, whole, and nothing else.
func TestKilledWhileChangingAccounts(t *testing.T) {
	perigeetest.Slow(t)
	if path := os.Getenv(accountsVariable); path != "" {
		changeUntilKilled(path)
		return
	}
	path := filepath.Join(t.TempDir(), "perigee.db")
	want := map[string]string{} // email to token, and preferred to an email, as confirmed
	random := rand.New(rand.NewPCG(1, 2))
	changes, preferred := 0, 0
	for range kills {
		begun, confirmed := runAndKill(t, path, random.IntN(40), want)
		changes += confirmed
		s, err := Open(t.Context(), Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		var verdict string
		if err := s.db.Write.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
			t.Fatalf("integrity: %q, %v", verdict, err)
		}
		got := map[string]string{}
		for _, account := range mustSignIns(t, s.Accounts(boundSealer{}), "") {
			got[account.Email] = account.Refresh.Reveal()
			if account.Preferred {
				got[preferredName] += account.Email // of two it would be neither
				preferred++
			}
		}
		mustClose(t, s)
		after := maps.Clone(want)
		apply(after, begun)
		if !maps.Equal(got, want) && !maps.Equal(got, after) {
			t.Fatalf("after %q\ngot  %v\nwant %v\nor   %v", begun, got, want, after)
		}
		want = got
	}
	if changes < kills || preferred < kills/4 {
		t.Errorf("only %d changes in %d lives, after %d of which somebody was preferred", changes, kills, preferred)
	}
}

// runAndKill starts a child, kills it after some changes, and brings want to what the child
// confirmed. It returns the change that the child had begun and not confirmed, if any.
func runAndKill(t *testing.T, path string, changes int, want map[string]string) (begun string, confirmed int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestKilledWhileChangingAccounts$")
	cmd.Env = append(os.Environ(), accountsVariable+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	killed := false
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "done":
			apply(want, begun)
			begun = ""
			confirmed++
		case strings.HasPrefix(line, "error"):
			t.Fatalf("the child said %q", line)
		default:
			begun = line
		}
		if !killed && confirmed >= changes {
			killed = true
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := await.Result(t, cmd.Wait, "the end of the child"); err == nil {
		t.Fatal("the child was not killed")
	}
	return begun, confirmed
}

// preferredName is the map's key for the preferred account.
const preferredName = "preferred"

// apply does to a map what a line of the child says: "set a=1 b=2", "prefer a" or "remove a".
func apply(accounts map[string]string, line string) {
	verb, rest, _ := strings.Cut(line, " ")
	for _, word := range strings.Fields(rest) {
		email, token, _ := strings.Cut(word, "=")
		switch verb {
		case "remove":
			delete(accounts, email)
			if accounts[preferredName] == email {
				delete(accounts, preferredName)
			}
		case "prefer":
			accounts[preferredName] = email
		default:
			accounts[email] = token
		}
	}
}

// changeUntilKilled changes accounts at random. It says what it is about to do, and "done" when
// that has returned.
func changeUntilKilled(path string) {
	s, err := Open(context.Background(), Options{Path: path})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	a := s.Accounts(boundSealer{})
	for n := 0; ; n++ {
		if err := changeSomething(a, fmt.Sprintf("%d-%d", os.Getpid(), n)); err != nil {
			fmt.Println("error:", err)
			return
		}
	}
}

func changeSomething(a *Accounts, token string) error {
	ctx := context.Background()
	list, err := a.SignIns(ctx, "")
	if err != nil {
		return err
	}
	if len(list) < 3 || rand.IntN(4) == 0 {
		one, other := fmt.Sprintf("%d@example.com", rand.IntN(6)), fmt.Sprintf("%d@example.com", 6+rand.IntN(6))
		fmt.Printf("set %s=%s %s=%s\n", one, token, other, token)
		_, err = a.AddSignIns(ctx, []perigee.SignIn{signIn(one, token), signIn(other, token)})
	} else if s := list[rand.IntN(len(list))]; rand.IntN(3) == 0 {
		fmt.Printf("prefer %s\n", s.Email)
		err = a.PreferSignIn(ctx, s.Upstream, s.Email)
	} else if rand.IntN(3) > 0 {
		fmt.Printf("set %s=%s\n", s.Email, token)
		s.Refresh = perigee.NewSecret(token)
		_, err = a.ChangeSignIn(ctx, s)
	} else {
		fmt.Printf("remove %s\n", s.Email)
		if _, err := a.RemoveSignIn(ctx, s.Upstream, s.Email); err != nil {
			return err
		}
		// A refresh that was under way comes late.
		s.Refresh = perigee.NewSecret("late")
		if _, err := a.ChangeSignIn(ctx, s); !errors.Is(err, perigee.ErrAccountChanged) {
			return fmt.Errorf("a late change: %w", err)
		}
	}
	if err == nil {
		fmt.Println("done")
	}
	return err
}

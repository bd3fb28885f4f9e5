//go:build linux

package ide

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/mcp/ask"
	"perigee/internal/testing/bridgetest"
)

// Nothing is done while nothing is asked, before the first ask and after it: a day passes, in which
// no timer makes a connection, and no goroutine is left, for which the bubble would not end.
func TestNothingPollsBetweenAsks(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	w := bridgetest.Start(t, bridgetest.Options{Dir: filepath.Join(dir, "bridges"), Workspace: []string{home}})
	synctest.Test(t, func(t *testing.T) {
		u := New(Options{Home: filepath.Join(home, "user"), Bridges: filepath.Join(dir, "bridges")})
		service := ask.NewService(ask.Options{Sources: func() []ask.Source { return []ask.Source{{Name: Source, Asker: u}} },
			Idle: func() time.Duration { return time.Minute }, Max: func() time.Duration { return 10 * time.Minute }})
		idle := func(when string) {
			t.Helper()
			before := w.Dials()
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			if after := w.Dials(); after != before {
				t.Errorf("%s: %d connections", when, after-before)
			}
		}
		idle("before the first ask")
		for _, prompt := range []string{"hello", "once more"} {
			before := w.Dials()
			answer, err := service.Ask(t.Context(), ask.Request{Prompt: prompt}, nil)
			if err != nil || answer.Text != "answer: "+prompt {
				t.Fatalf("%+v, %v", answer, err)
			}
			if w.Dials() == before {
				t.Error("an ask made no connection, so they are not counted")
			}
			idle("after an ask")
		}
		if err := u.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

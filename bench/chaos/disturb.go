package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // for a lock that another process holds
)

// A part of the world is what a disturbance disturbs. With -soak the parts are disturbed side by
// side; disturbances of the same part never overlap.
type part string

const (
	thePrograms part = "process"
	theSettings part = "configuration"
	theStore    part = "store"
	theNetwork  part = "provider"
	theAccounts part = "accounts"
)

// A disturbance is one thing that goes wrong around perigee. It returns when it is over.
type disturbance struct {
	part   part
	name   string
	weight int
	fits   func(*world) bool // nil means always
	run    func(ctx context.Context, w *world, random *rand.Rand) error
}

var disturbances = []disturbance{
	{theSettings, "configuration edited", 3, nil, func(ctx context.Context, w *world, random *rand.Rand) error {
		defer wait(ctx, 2*time.Second)
		return w.write(w.config(fmt.Sprint("alias-", random.IntN(1000))))
	}},
	{theSettings, "configuration half written", 3, nil, halfWritten},
	{theSettings, "configuration broken", 2, nil, func(ctx context.Context, w *world, random *rand.Rand) error {
		broken := []string{"", "\n", "# nothing\n", "keys: [", "upstreams: []\nkeys: []\n", "limits: {body: many}\n"}
		if err := w.write(broken[random.IntN(len(broken))]); err != nil {
			return err
		}
		wait(ctx, 3*time.Second)
		return w.write(w.config(""))
	}},
	{thePrograms, "restart", 3, nil, func(ctx context.Context, w *world, _ *rand.Rand) error { return again(ctx, w, syscall.SIGTERM) }},
	{thePrograms, "kill", 3, nil, func(ctx context.Context, w *world, _ *rand.Rand) error { return again(ctx, w, syscall.SIGKILL) }},
	{theStore, "disk full", 3, nil, diskFull},
	{thePrograms, "file descriptors used up", 2, nil, func(ctx context.Context, w *world, _ *rand.Rand) error {
		undo, err := fewDescriptors(w.running())
		if err != nil {
			return err
		}
		defer undo()
		defer w.storeOut()() // SQLite opens files
		wait(ctx, 3*time.Second)
		return nil
	}},
	{theStore, "database locked by another process", 3, func(w *world) bool { return w.database == nil }, lockDatabase},
	{theStore, "database hangs", 5, func(w *world) bool { return w.database != nil }, func(ctx context.Context, w *world, random *rand.Rand) error {
		defer w.storeOut()()
		freeze(ctx, processes(w.database.PID()), time.Duration(1+random.IntN(6))*time.Second)
		return nil
	}},
	{theNetwork, "provider down", 2, nil, func(ctx context.Context, w *world, random *rand.Rand) error {
		w.provider.outage.Store([]int32{http.StatusTooManyRequests, http.StatusServiceUnavailable}[random.IntN(2)])
		defer w.provider.outage.Store(0)
		wait(ctx, 2*time.Second)
		return nil
	}},
	{theNetwork, "connections to the provider become black holes", 3, nil, func(ctx context.Context, w *world, _ *rand.Rand) error {
		w.provider.swallow(ctx, 8*time.Second)
		return nil
	}},
	{theNetwork, "network to the provider dead", 2, nil, func(ctx context.Context, w *world, random *rand.Rand) error {
		w.provider.dead.Store(true)
		wait(ctx, time.Duration(1+random.IntN(6))*time.Second)
		w.provider.dead.Store(false)
		w.provider.swallow(ctx, 0)
		return nil
	}},
	{theNetwork, "provider closes all connections", 2, nil, func(_ context.Context, w *world, _ *rand.Rand) error {
		w.provider.hangUp()
		return nil
	}},
	{theAccounts, "account disabled", 2, nil, func(ctx context.Context, w *world, _ *rand.Rand) error {
		return w.changeAccounts(ctx, 2*time.Second, []string{"disable", adaEmail}, []string{"enable", adaEmail})
	}},
	{theAccounts, "all accounts disabled", 1, nil, func(ctx context.Context, w *world, _ *rand.Rand) error {
		return w.changeAccounts(ctx, time.Second, []string{"disable", adaEmail}, []string{"disable", benEmail},
			[]string{"enable", benEmail}, []string{"enable", adaEmail})
	}},
	{theAccounts, "account preferred", 2, nil, func(ctx context.Context, w *world, random *rand.Rand) error {
		return w.changeAccounts(ctx, time.Second, []string{"use", []string{adaEmail, benEmail}[random.IntN(2)]})
	}},
	{theAccounts, "account removed and imported", 2, nil, func(ctx context.Context, w *world, _ *rand.Rand) error {
		return w.changeAccounts(ctx, time.Second, []string{"remove", "--yes", benEmail}, []string{"import", w.accountsFile()})
	}},
}

// halfWritten writes the configuration in place, in two goes, and cuts it where that hurts.
func halfWritten(ctx context.Context, w *world, random *rand.Rand) error {
	text := w.config("")
	at := strings.Index(text, []string{"keys:", "upstreams:", "models:"}[random.IntN(3)])
	f, err := os.OpenFile(w.configFile(), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(text[:at]); err != nil {
		return err
	}
	wait(ctx, time.Duration(300+random.IntN(3000))*time.Millisecond)
	_, err = f.WriteString(text[at:])
	return err
}

// again ends perigee and starts it again.
func again(ctx context.Context, w *world, signal syscall.Signal) error {
	if err := w.down(signal); err != nil {
		return err
	}
	return w.up(ctx)
}

func diskFull(ctx context.Context, w *world, random *rand.Rand) error {
	defer w.storeOut()()
	_, undo, err := fillDisk(w)
	if err != nil {
		return err
	}
	defer undo()
	wait(ctx, time.Duration(1+random.IntN(4))*time.Second)
	return nil
}

// lockDatabase holds SQLite's write lock.
func lockDatabase(ctx context.Context, w *world, random *rand.Rand) error {
	found, _ := filepath.Glob(filepath.Join(w.data, "*.db"))
	if len(found) == 0 {
		return fmt.Errorf("there is no database in %s", w.data)
	}
	db, err := sql.Open("sqlite", "file:"+found[0]+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	defer w.storeOut()()
	if _, err := conn.ExecContext(context.Background(), "BEGIN EXCLUSIVE"); err != nil {
		return fmt.Errorf("lock %s: %w", found[0], err)
	}
	wait(ctx, time.Duration(1+random.IntN(4))*time.Second)
	_, err = conn.ExecContext(context.Background(), "ROLLBACK")
	return err
}

// A disturber makes things go wrong until its time is up.
type disturber struct {
	world  *world
	random *rand.Rand
	part   part                 // the only one that is disturbed; empty means all, in turn
	pause  func() time.Duration // between two disturbances
	say    func(string)
	made   map[string]int
}

// disturb goes through the table before it repeats anything.
func (d *disturber) disturb(ctx context.Context) error {
	d.made = map[string]int{}
	var deck []disturbance
	for {
		wait(ctx, d.pause())
		if ctx.Err() != nil {
			return nil
		}
		if len(deck) == 0 {
			deck = d.shuffled()
		}
		next := deck[0]
		deck = deck[1:]
		d.say(next.name)
		// A disturbance is brought to its end, also when time is up: perigee has to be up and the
		// disk free.
		if err := next.run(context.WithoutCancel(ctx), d.world, d.random); err != nil {
			return fmt.Errorf("%s: %w", next.name, err)
		}
		d.made[next.name]++
	}
}

// shuffled is the table in some order, at first once each, then by weight.
func (d *disturber) shuffled() (deck []disturbance) {
	w := d.world
	for _, one := range disturbances {
		if d.part != "" && one.part != d.part || one.fits != nil && !one.fits(w) || w.without != "" && strings.Contains(one.name, w.without) {
			continue
		}
		deck = append(deck, one)
		for i := 1; len(d.made) > 0 && i < one.weight; i++ {
			deck = append(deck, one)
		}
	}
	d.random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

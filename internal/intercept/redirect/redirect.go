// Package redirect sends the connections of one user of the system to the transparent proxy: TCP
// to port 443, over IPv4 and IPv6. It creates that user if there is none, and can undo all
// changes. Rules end with the system; on request, it creates a systemd unit that restores them.
//
// The installed state is read from the rules in the kernel, never from a file. A user that was
// created here is marked by the comment in its entry. The file state.json is for programs that are
// not root, which may not read rules, and records the chains and tables that iptables had to
// create. It is valid only in the run of the system and in the network namespace in which it was
// written, because rules end with these.
package redirect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee/internal/lib/lazyregexp"
)

// Dir is the directory of the state and of the homes of users that are created. There is one for
// the whole system, as for rules and users.
const Dir = "/var/lib/perigee-redirect"

// DefaultPort is the port that connections are redirected to unless another one is requested.
const DefaultPort = 8742

// The backends.
const (
	NFTables = "nftables"
	IPTables = "iptables"
)

const undoPatience = 30 * time.Second // also after a signal

// A Status is the installed state. Members other than Problem are zero if nothing is installed,
// except for User, Port and Persistent of rules that have ended with the system, as far as they
// are known.
type Status struct {
	Installed bool   `json:"installed"`
	User      string `json:"user"`
	UID       int    `json:"uid"`
	Backend   string `json:"backend"`
	Port      int    `json:"port"`
	// Persistent means that a systemd unit restores the rules after a restart of the system.
	Persistent bool `json:"persistent,omitempty"`
	// describes the rest of an incomplete install, with the next step
	Problem string `json:"problem,omitempty"`
}

// Restore returns the command that restores rules that have ended with the system. It returns ""
// if there are rules, complete or not, and if nothing was installed.
func (s *Status) Restore() string {
	switch {
	case s.Installed || s.Problem == "":
		return ""
	case s.Persistent:
		return "sudo systemctl restart " + unitName
	case s.User == "":
		return ""
	case s.Port == 0 || s.Port == DefaultPort:
		return "sudo perigee redirect install --user " + s.User
	}
	return fmt.Sprintf("sudo perigee redirect install --user %s --port %d", s.User, s.Port)
}

// A Request describes an install.
type Request struct {
	User    string
	Port    int
	Backend string // if empty, nftables if available, else iptables
	Persist bool   // create a systemd unit that installs the same after each start of the system
}

// rules are the rules of a backend that were found.
type rules struct {
	backend   string
	uid, port int
	any       bool   // there are rules
	problem   string // why they are not complete; empty if they are
}

// A backend is a program that changes rules. All of its methods may be called when nothing is
// installed.
type backend interface {
	name() string
	usable() error // why it cannot be used; nil if it can
	inspect(context.Context) (rules, error)
	install(ctx context.Context, uid, port int) error
	remove(context.Context) error
}

// A Redirect is the redirect of this system.
type Redirect struct {
	dir      string
	backends []backend
}

// New returns the redirect of this system.
func New() *Redirect { return at(Dir) }

func at(dir string) *Redirect {
	return &Redirect{dir: dir, backends: []backend{&nftables{}, &iptables{}}}
}

// Installed returns the installed redirect: from the rules if perigee is root, and otherwise,
// since only root can read them, from the state that the last install has written.
func Installed(ctx context.Context) (Status, error) {
	r := New()
	if os.Geteuid() == 0 {
		return r.Status(ctx)
	}
	s, err := r.readState()
	switch {
	case err != nil || s.User == "":
		return Status{}, err
	case s.System != systemID() && exists(unitFile):
		return Status{User: s.User, Port: s.Port, Persistent: true, Problem: fmt.Sprintf("the unit %s has not restored the redirect of the user %s after the start of the system; "+
			"run sudo systemctl restart %s", unitName, s.User, unitName)}, nil
	case s.System != systemID():
		return Status{User: s.User, Port: s.Port, Problem: fmt.Sprintf("the redirect of the user %s was installed before the system started, or in another network namespace, and its rules "+
			"have ended with that; run sudo perigee redirect install --user %s again, or sudo perigee redirect remove", s.User, s.User)}, nil
	}
	_, persistent := hasUnit()
	return Status{Installed: true, User: s.User, UID: s.UID, Backend: s.Backend, Port: s.Port, Persistent: persistent}, nil
}

// ready returns an error if rules cannot be read or changed here.
func ready(action string) error {
	if runtime.GOOS != "linux" {
		return errors.New("a redirect needs Linux; use intercept: proxy on this system")
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("only root can read and change the rules of the system; run sudo perigee redirect %s", action)
	}
	return nil
}

// Status reads the rules.
func (r *Redirect) Status(ctx context.Context) (Status, error) {
	if err := ready("status"); err != nil {
		return Status{}, err
	}
	return r.status(ctx)
}

func (r *Redirect) status(ctx context.Context) (Status, error) {
	there, err := r.inspect(ctx)
	if err != nil {
		return Status{}, err
	}
	return r.describe(there)
}

// describe converts the parts that were found to a Status.
func (r *Redirect) describe(there parts) (Status, error) {
	found, made, unit := there.rules, there.users, there.unit
	const repairHint = "; run perigee redirect remove, then install again"
	switch {
	case len(found) == 0 && len(made) == 0 && !unit:
		return Status{}, nil
	case len(found) == 0 && unit:
		return Status{Persistent: true, Problem: fmt.Sprintf("there are no rules, and the unit %s would restore them; "+
			"run systemctl restart %s, or perigee redirect remove", unitName, unitName)}, nil
	case len(found) == 0:
		s, err := r.readState()
		if err != nil || s.User != made[0].Username {
			s.Port = 0
		}
		return Status{User: made[0].Username, Port: s.Port, Problem: fmt.Sprintf("the user %s was made for a redirect, and there are no rules (they end with the system); "+
			"run perigee redirect install --user %s again, or perigee redirect remove", made[0].Username, made[0].Username)}, nil
	case len(found) > 1:
		return Status{Problem: "there are rules of nftables and of iptables" + repairHint}, nil
	case found[0].problem != "":
		return Status{Problem: "the rules of " + found[0].backend + " are not complete: " + found[0].problem + repairHint}, nil
	}
	owner, err := user.LookupId(strconv.Itoa(found[0].uid))
	if err != nil {
		return Status{Problem: fmt.Sprintf("the rules are for the user id %d, which no user has", found[0].uid) + repairHint}, nil
	}
	return Status{Installed: true, User: owner.Username, UID: found[0].uid, Backend: found[0].backend, Port: found[0].port, Persistent: there.persistent}, nil
}

// parts are the existing results of Install.
type parts struct {
	rules            []rules     // rules of each backend that has some
	users            []user.User // users that were created
	unit, persistent bool        // as hasUnit returns them
}

// inspect reads the state of the system.
func (r *Redirect) inspect(ctx context.Context) (there parts, err error) {
	for _, b := range r.backends {
		got, err := b.inspect(ctx)
		if err != nil {
			return parts{}, err
		}
		if got.any {
			there.rules = append(there.rules, got)
		}
	}
	there.unit, there.persistent = hasUnit()
	there.users, err = madeUsers()
	return there, err
}

// names returns descriptions of the existing parts.
func (p parts) names() (list []string) {
	for _, rules := range p.rules {
		list = append(list, "rules of "+rules.backend)
	}
	for _, u := range p.users {
		list = append(list, "user "+u.Username)
	}
	if p.unit {
		list = append(list, "unit "+unitName)
	}
	return list
}

var userName = lazyregexp.New(`^[a-z_][a-z0-9_-]{0,30}$`)

// check validates a request, independent of the system.
func (q Request) check() error {
	switch {
	case q.User == "":
		return &InvalidError{"choose the user whose connections are redirected with --user"}
	case !userName().MatchString(q.User):
		return &InvalidError{fmt.Sprintf("%q is not a valid user name; use lower-case letters, digits, - and _, at most 31", q.User)}
	case q.Port < 1 || q.Port > 65535 || q.Port == 443:
		return &InvalidError{fmt.Sprintf("%d is not a port to redirect to; use 1 to 65535, except 443", q.Port)}
	case !slices.Contains([]string{"", NFTables, IPTables}, q.Backend):
		return &InvalidError{fmt.Sprintf("%q is not a backend; use nftables or iptables", q.Backend)}
	}
	return nil
}

// An InvalidError means that a Request can never be fulfilled.
type InvalidError struct{ message string }

func (e *InvalidError) Error() string { return e.message }

// Install creates the user if there is none, and the rules. If the same is installed already, it
// changes nothing.
func (r *Redirect) Install(ctx context.Context, q Request) (Status, error) {
	if err := q.check(); err != nil {
		return Status{}, err
	}
	if err := ready("install --user " + q.User); err != nil {
		return Status{}, err
	}
	unlock, err := lock(ctx, filepath.Dir(r.dir))
	if err != nil {
		return Status{}, err
	}
	defer unlock()
	chosen, err := r.choose(q.Backend)
	if err != nil {
		return Status{}, err
	}
	program := ""
	if q.Persist {
		if program, err = unitProgram(q.User); err != nil {
			return Status{}, err
		}
	}
	there, err := r.inspect(ctx)
	if err != nil {
		return Status{}, err
	}
	now, err := r.describe(there)
	if err != nil {
		return Status{}, err
	}
	switch {
	case now.Installed && (now.User != q.User || now.Port != q.Port || q.Backend != "" && now.Backend != q.Backend):
		return Status{}, fmt.Errorf("a redirect of the user %s to port %d (%s) is installed; run perigee redirect remove first", now.User, now.Port, now.Backend)
	case now.Installed:
		if err := r.refreshState(now); err != nil || !q.Persist {
			return now, err
		}
		if err := r.persist(ctx, program, now); err != nil {
			return Status{}, err
		}
		return r.status(ctx)
	case there.blocks(q):
		return Status{}, errors.New(now.Problem)
	}
	isNew, err := r.install(ctx, q, chosen)
	if err == nil {
		now, err = r.status(ctx)
	}
	if err == nil && (!now.Installed || now.User != q.User || now.Port != q.Port) {
		err = errors.New("the rules are not there after they were made: " + now.Problem)
	}
	if err == nil && q.Persist {
		if err = r.persist(ctx, program, now); err == nil {
			now, err = r.status(ctx)
		}
	}
	if err != nil {
		return Status{}, errors.Join(err, r.undo(ctx, isNew))
	}
	return now, nil
}

// choose returns the backend to install with.
func (r *Redirect) choose(name string) (backend, error) {
	for _, b := range r.backends {
		if err := b.usable(); b.name() == name || name == "" && err == nil {
			return b, err
		}
	}
	return nil, errors.New("neither nft nor iptables is installed; install the package nftables")
}

// blocks reports whether there are incomplete rules, or a user or a unit that was created for
// another install.
func (p parts) blocks(q Request) bool {
	other := slices.ContainsFunc(p.users, func(u user.User) bool { return u.Username != q.User })
	return len(p.rules) > 0 || other || p.unit && !unitInstalls(q)
}

func (r *Redirect) install(ctx context.Context, q Request, b backend) (isNew bool, err error) {
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return false, err
	}
	owner, isNew, err := r.ensureUser(ctx, q.User)
	if err != nil {
		return isNew, err
	}
	uid, err := strconv.Atoi(owner.Uid)
	if err != nil {
		return isNew, err
	}
	if uid == 0 {
		return isNew, errors.New("connections of root are not redirected, because perigee could not reach the cloud itself; choose another user")
	}
	s := state{User: q.User, UID: uid, Port: q.Port, Backend: b.name(), System: systemID()}
	if b.name() == IPTables {
		s.Made, err = missingChains(ctx)
	}
	if before, err := r.readState(); err == nil && before.System == s.System {
		// of an install with rules that another program has removed
		s.Made = append(s.Made, before.Made...)
	}
	if err = errors.Join(err, r.writeState(s)); err != nil {
		return isNew, err
	}
	return isNew, b.install(ctx, uid, q.Port)
}

// undo reverts an install that has failed. An existing user is kept.
func (r *Redirect) undo(ctx context.Context, isNew bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoPatience)
	defer cancel()
	err := r.removeRules(ctx)
	if isNew {
		err = errors.Join(err, r.removeUsers(ctx))
	}
	if err != nil {
		return fmt.Errorf("what was done could not be undone: %w; run perigee redirect remove", err)
	}
	return r.removeState()
}

// Remove reverts Install, including an install that was killed, and checks that nothing is left.
// It returns descriptions of the parts that it removed.
func (r *Redirect) Remove(ctx context.Context) (removed []string, err error) {
	if err := ready("remove"); err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, filepath.Dir(r.dir))
	if err != nil {
		return nil, err
	}
	defer unlock()
	there, err := r.inspect(ctx)
	if err != nil {
		return nil, err
	}
	removed = there.names()
	if err := r.removeUnit(ctx); err != nil { // first, so that it does not restore the rules
		return nil, err
	}
	if err := r.removeRules(ctx); err != nil {
		return nil, err
	}
	if err := r.removeUsers(ctx); err != nil {
		return nil, fmt.Errorf("the rules are removed, but %w", err)
	}
	if err := r.removeState(); err != nil {
		return nil, err
	}
	if there, err = r.inspect(ctx); err != nil {
		return nil, err
	}
	if len(there.names()) > 0 {
		return nil, fmt.Errorf("%s were removed, and are there again; does another program restore them?", strings.Join(removed, ", "))
	}
	return removed, nil
}

// removeRules removes the rules of every backend, and the chains that were made for them.
func (r *Redirect) removeRules(ctx context.Context) error {
	for _, b := range r.backends {
		if err := b.remove(ctx); err != nil {
			return err
		}
	}
	s, err := r.readState()
	if err != nil || s.System != systemID() {
		return err // rules and chains end with the system
	}
	for _, c := range s.Made {
		if err := c.removeEmpty(); err != nil {
			return err
		}
	}
	return nil
}

// Package trustinstall makes trust stores trust the CA of interception, and removes that CA
// completely. It makes the CA if there is none, plans before it changes anything, and reports only
// verified results.
package trustinstall

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"perigee/internal/intercept/authority"
	"perigee/internal/intercept/truststore"
	"perigee/internal/lib/netguard"
	"perigee/internal/store/datadir"
)

// A CA is a directory with the files of a certificate authority, on a machine with trust stores.
type CA struct {
	Dir     string // absolute
	Hosts   netguard.HostList
	Machine truststore.Machine
	Remark  func(format string, args ...any) // gets remarks, one sentence each
	Running bool                             // a daemon is running that may use the CA
}

// ErrNone means that there is no CA.
var ErrNone = errors.New("there is no CA")

// A Status describes the CA.
type Status struct {
	Path        string    `json:"path"`
	Fingerprint string    `json:"fingerprint"`
	NotAfter    time.Time `json:"not_after"`
	Hosts       []string  `json:"hosts"`     // of the certificate
	Installed   []string  `json:"installed"` // kinds of stores that trust it
	Places      []string  `json:"-"`         // the same with their paths
}

// Status describes the CA. It makes none; without one the error is ErrNone.
func (c *CA) Status(ctx context.Context) (*Status, error) {
	info, err := authority.Read(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s; perigee ca install makes one", ErrNone, c.Dir)
	}
	if err != nil {
		return nil, err
	}
	status := &Status{Path: info.Path, Fingerprint: info.Fingerprint, NotAfter: info.NotAfter.UTC(), Hosts: info.Hosts, Installed: []string{}}
	for _, s := range c.Machine.Stores("") {
		switch state, err := s.State(ctx, info.Certificate); {
		case err != nil:
			c.Remark("it is not known whether a store has the CA: %v", err)
		case state == truststore.Partial:
			c.Remark("%s has the CA in part; perigee ca install completes that, perigee ca remove undoes it", s.Path)
		case state == truststore.Trusted:
			status.Places = append(status.Places, s.Kind+" ("+s.Path+")")
			if !slices.Contains(status.Installed, s.Kind) {
				status.Installed = append(status.Installed, s.Kind)
			}
		}
	}
	if !info.Fits(c.Hosts, time.Now()) {
		c.Remark("interception.hosts has changed since, or the CA expires soon: perigee makes a new one when it needs it next")
	}
	return status, nil
}

// A Plan is an installation that has not begun.
type Plan struct {
	Done   bool // the stores trust the CA already
	ca     *CA
	stores []*truststore.Store
	info   *authority.Info // nil if a CA has to be made
}

// Plan determines the steps of an installation into the stores of a kind. It changes nothing.
func (c *CA) Plan(ctx context.Context, kind string) (*Plan, error) {
	p := &Plan{ca: c}
	var err error
	if p.stores, err = c.Machine.Ready(kind); err != nil {
		return nil, err
	}
	info, err := authority.Read(c.Dir)
	switch {
	case err == nil && info.Fits(c.Hosts, time.Now()):
		p.info = info
	case errors.Is(err, fs.ErrPermission):
		return nil, err
	default:
		if uid, foreign := truststore.ForeignTo(datadir.Existing(c.Dir)); foreign {
			return nil, fmt.Errorf("a CA that root makes in %s could not be used by its owner (user ID %d); "+
				"run perigee ca install as that user, without sudo", c.Dir, uid)
		}
		return p, nil
	}
	for _, s := range p.stores {
		if state, err := s.State(ctx, info.Certificate); err != nil || state != truststore.Trusted {
			return p, err
		}
	}
	recorded, err := truststore.Recorded(c.Dir)
	p.Done = len(recorded) == 1 && recorded[0].Equal(info.Certificate)
	return p, err
}

// Describe prints the steps of Run.
func (p *Plan) Describe() {
	say := p.ca.Remark
	if p.info == nil {
		say("this makes a CA in %s and has this machine trust it", p.ca.Dir)
	} else {
		say("this has the machine trust the CA %s", p.info.Path)
		say("its fingerprint is %s, and it is valid until %s", p.info.Fingerprint, p.info.NotAfter.UTC().Format(time.RFC3339))
	}
	say("by its name constraints it can speak for these hosts and names below them, for no others and for no IP address: %s",
		strings.Join(p.ca.Hosts.Constraints(), ", "))
	for _, s := range p.stores {
		say("the store is %s, %s", s.Kind, s.Path)
		if p.info != nil {
			say("the same by hand: %s", s.InstallLine(p.info.Certificate, p.info.Path))
		}
	}
	if system := p.ca.Machine.OS; system != "linux" && p.stores[0].Kind == truststore.System {
		say("the store of this system (%s) has not been tried yet; please report how it went", system)
	}
	if user := os.Getenv("SUDO_USER"); user != "" && os.Geteuid() == 0 {
		if _, foreign := truststore.ForeignTo(datadir.Existing(p.ca.Dir)); !foreign {
			say("perigee runs as root: this is the CA of root, and not that of %s; for that one run perigee ca install without sudo", user)
		}
	}
	say("to undo it, run perigee ca remove")
}

// Run installs the CA and returns the verified results, and how it is undone.
func (p *Plan) Run(ctx context.Context) (done []string, err error) {
	if !p.Done {
		if err := p.install(ctx); err != nil {
			return nil, err
		}
	}
	for _, s := range p.stores {
		done = append(done, fmt.Sprintf("installed: %s (%s)", s.Kind, s.Path))
	}
	done = append(done, "undo: perigee ca remove")
	for _, s := range p.stores {
		done = append(done, "undo by hand: "+s.RemoveLine(p.info.Certificate))
	}
	return done, nil
}

func (p *Plan) install(ctx context.Context) error {
	c := p.ca
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	p.stores = c.Machine.Stores(p.stores[0].Kind) // with the lock
	a, made, err := authority.Open(c.Dir, c.Hosts, time.Now)
	if err != nil {
		return err
	}
	p.info = a.Info()
	if made {
		c.Remark("made the CA %s with the fingerprint %s", p.info.Path, p.info.Fingerprint)
		c.warnUsers()
	}
	if err := truststore.Record(c.Dir, p.info.Certificate); err != nil {
		return err
	}
	var failed []error
	for _, s := range p.stores {
		state, err := s.State(ctx, p.info.Certificate)
		if err == nil && state != truststore.Trusted {
			err = s.Install(ctx, p.info.Certificate, p.info.Path)
		}
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	c.Remark("programs that are running may have to be restarted")
	return p.removeEarlier(ctx)
}

// lock keeps other processes from changing trust for the CA, while this one or a tool that it
// started does.
func (c *CA) lock(ctx context.Context) (unlock func(), err error) {
	lock, err := truststore.Lock(ctx, c.Dir)
	if err != nil {
		return nil, err
	}
	c.Machine.Held = lock
	return func() { c.Machine.Held = nil; _ = lock.Close() }, nil
}

// removeEarlier removes the certificates of CAs that were replaced.
func (p *Plan) removeEarlier(ctx context.Context) error {
	recorded, err := truststore.Recorded(p.ca.Dir)
	if err != nil {
		return err
	}
	for _, earlier := range recorded {
		if earlier.Equal(p.info.Certificate) {
			continue
		}
		if _, err := p.ca.removeFromStores(ctx, earlier); err != nil {
			return fmt.Errorf("an earlier CA: %w", err)
		}
		if err := truststore.Forget(p.ca.Dir, earlier); err != nil {
			return err
		}
		p.ca.Remark("removed the earlier CA %s… from the stores", truststore.ID(earlier))
	}
	return nil
}

// warnUsers names processes that still use a CA that was replaced or removed.
func (c *CA) warnUsers() {
	if c.Running {
		c.Remark("the daemon is running: if it intercepts, it goes on with the CA that it has in memory; restart it")
	}
	for _, id := range truststore.Processes(c.Dir) {
		c.Remark("process %d was started with a bundle that has the CA, and trusts it until it ends", id)
	}
}

// Remove removes the CA from all stores, then its files, and returns the removed items. If a store
// fails, the files stay, so that the certificate is found again. Without an error, no store has the
// certificate and no file of the CA is left.
func (c *CA) Remove(ctx context.Context) (done []string, err error) {
	if _, err := os.Stat(c.Dir); err == nil {
		unlock, err := c.lock(ctx)
		if err != nil {
			return nil, err
		}
		defer unlock()
		c.warnUsers()
	}
	own, err := truststore.OwnCertificates(c.Dir)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, certificate := range own {
		lines, err := c.removeFromStores(ctx, certificate)
		done, failed = append(done, lines...), append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return done, err
	}
	files, kept, err := truststore.RemoveFiles(c.Dir)
	for _, path := range files {
		done = append(done, "removed: "+path)
	}
	if err != nil {
		return done, err
	}
	for _, path := range kept {
		c.Remark("%s is not a file of the CA and stays", path)
	}
	if len(done) == 0 {
		c.Remark("there is no CA in %s, and nothing to remove", c.Dir)
	}
	left, err := c.Machine.Leftovers(ctx)
	for _, l := range left {
		c.Remark("%s still has the certificate %s… of a CA of perigee that is elsewhere or lost; if it is not in use, run %s",
			l.Store.Path, truststore.ID(l.Certificate), l.Store.RemoveLine(l.Certificate))
	}
	return done, err
}

// removeFromStores removes a certificate from every store, also when one of them fails.
func (c *CA) removeFromStores(ctx context.Context, certificate *x509.Certificate) (done []string, err error) {
	var failed []error
	for _, s := range c.Machine.Stores("") {
		had, err := s.Remove(ctx, certificate)
		if had && err == nil {
			done = append(done, fmt.Sprintf("removed: %s… from %s (%s)", truststore.ID(certificate), s.Kind, s.Path))
		}
		failed = append(failed, err)
	}
	return done, errors.Join(failed...)
}

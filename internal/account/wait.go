package account

import (
	"container/list"
	"context"
	"time"
)

// A waiter is a call that waits for an account.
type waiter struct {
	call   *borrowing
	served chan served // has room for one
	place  *list.Element
}

type served struct {
	loan *loan
	err  error
}

// obtain looks for an account and waits for one if need be.
func (p *Pool) obtain(ctx context.Context, b *borrowing) (*loan, error) {
	p.mu.Lock()
	now := p.advance()
	p.settle() // those who wait come before the one who comes now
	l, result := p.attempt(b, now)
	switch result {
	case found:
		p.unlock()
		return l, nil
	case nobody:
		err := p.refusal(b, now)
		p.unlock()
		if p.awaitLook(ctx, b, p.look(b)) {
			return p.obtain(ctx, b)
		}
		return nil, err
	}
	w := &waiter{call: b, served: make(chan served, 1)}
	w.place = p.waiters.PushBack(w)
	p.arm(now)
	p.unlock()
	if result == waitForAny {
		p.look(b) // who has quota again is lent at once
	}

	timer := time.NewTimer(b.deadline - now)
	defer timer.Stop()
	select {
	case s := <-w.served:
		return s.loan, s.err
	case <-timer.C:
		return p.giveUp(w)
	case <-ctx.Done():
		p.mu.Lock()
		p.leave(w)
		p.unlock()
		select {
		case s := <-w.served:
			if s.loan != nil {
				s.loan.release()
			}
		default:
		}
		return nil, ctx.Err()
	}
}

// giveUp ends the waiting of a call whose time is over.
func (p *Pool) giveUp(w *waiter) (*loan, error) {
	p.mu.Lock()
	defer p.unlock()
	now := p.advance()
	p.settle()
	select {
	case s := <-w.served:
		return s.loan, s.err
	default:
	}
	p.leave(w)
	return nil, p.refusal(w.call, now)
}

func (p *Pool) leave(w *waiter) {
	if w.place != nil {
		p.waiters.Remove(w.place)
		w.place = nil
	}
}

// settle serves those who wait if somebody may have become usable, and sets the alarm for the next time.
func (p *Pool) settle() {
	if p.waiters.Len() == 0 {
		p.changed = false
		p.disarm()
		return
	}
	if !p.changed {
		return
	}
	p.changed = false
	now := p.clock.read()
	p.serve(now)
	p.arm(now)
}

// serve goes through those who wait, first come first served. Whoever can no longer be served in time is told so.
func (p *Pool) serve(now instant) {
	type need struct {
		group group
		model string
	}
	waiting := map[need]instant{} // when somebody will be back for those who need this
	for e := p.waiters.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		b := w.call
		key := need{b.group, b.want.Model}
		if at, ok := waiting[key]; ok && at <= b.deadline {
			continue
		}
		l, result := p.attempt(b, now)
		switch result {
		case found:
			p.leave(w)
			w.served <- served{loan: l}
		case nobody:
			p.leave(w)
			w.served <- served{err: p.refusal(b, now)}
		case waitForAny:
			waiting[key], _ = p.earliest(b, now)
		}
	}
}

// arm sets the alarm for when the next rest is over.
func (p *Pool) arm(now instant) {
	if len(p.events) == 0 || p.waiters.Len() == 0 {
		p.disarm()
		return
	}
	d := p.events[0].at - now
	p.armed = true
	if p.alarm == nil {
		p.alarm = time.AfterFunc(d, p.ring)
	} else {
		p.alarm.Reset(d)
	}
}

func (p *Pool) disarm() {
	if p.armed {
		p.alarm.Stop()
		p.armed = false
	}
}

// ring is called by the alarm.
func (p *Pool) ring() {
	p.mu.Lock()
	defer p.unlock()
	now := p.advance()
	p.settle()
	p.arm(now)
}

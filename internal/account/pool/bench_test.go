package pool

import (
	"fmt"
	"testing"
	"time"

	"perigee"
	"perigee/internal/adapt/providererr"
)

// crowd is a pool of a thousand accounts, of which nine in ten cool down.
func crowd(b *testing.B, opts Options) *Pool {
	p := New(opts)
	var list []Source
	for i := range 1000 {
		list = append(list, newSource(fmt.Sprintf("%03d@example.com", i)))
	}
	p.SetSources(list)
	for i, m := range p.members {
		p.ReportQuota(m.email, []perigee.QuotaRow{{Pool: PoolAntigravity, Model: flash.Model, Remaining: 0.5}}, time.Now())
		if i%10 != 7 {
			now := p.clock.Now()
			m.startCooldown(&m.cooldowns[p.groups[0].id], failure{kind: providererr.KindQuota, delay: time.Hour, began: now})
		}
	}
	return p
}

func BenchmarkAcquire1000(b *testing.B) {
	for _, selection := range []string{Sticky, RoundRobin, Hybrid} {
		for _, free := range []string{"most rest", "all free"} {
			opts := Options{Selection: selection, SoftQuota: 0.9, Concurrency: 1000}
			p := crowd(b, opts)
			if free == "all free" {
				_ = p.Clear("")
			}
			b.Run(selection+"/"+free, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					l, err := p.Acquire(flash).Next(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					l.Done(nil)
				}
			})
			b.Run(selection+"/"+free+"/parallel", func(b *testing.B) {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						l, err := p.Acquire(flash).Next(b.Context())
						if err != nil {
							b.Error(err)
							return
						}
						l.Done(nil)
					}
				})
			})
		}
	}
}

// BenchmarkLimit1000 is a call that is refused and moves on, the most that a choice can cost.
func BenchmarkLimit1000(b *testing.B) {
	p := crowd(b, Options{SoftQuota: 0.9})
	_ = p.Clear("")
	for b.Loop() {
		l, err := p.Acquire(flash).Next(b.Context())
		if err != nil {
			_ = p.Clear("")
			continue
		}
		l.Done(&providererr.Diagnosis{Kind: providererr.KindQuota, Scope: providererr.ScopeAccountFamily, Delay: time.Hour})
	}
}

// BenchmarkRefuse1000 is a call that gets no account.
func BenchmarkRefuse1000(b *testing.B) {
	p := crowd(b, Options{Pools: []string{PoolAntigravity}})
	for range 100 {
		l, err := p.Acquire(flash).Next(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		l.Done(&providererr.Diagnosis{Kind: providererr.KindQuota, Scope: providererr.ScopeAccountFamily, Delay: time.Hour})
	}
	for b.Loop() {
		if _, err := p.Acquire(flash).Next(b.Context()); err == nil {
			b.Fatal("an account was leased")
		}
	}
}

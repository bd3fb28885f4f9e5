package membudget

import (
	"errors"
	"sync"
	"testing"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

const mb = 1 << 20

func open(t *testing.T, b *Budget) *Lease {
	t.Helper()
	l := &Lease{}
	if err := l.Open(b, false); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLargeLeasesLeaveAPartToSmallOnes(t *testing.T) {
	b := New(256*mb, nil)
	var large []*Lease
	for {
		l := open(t, b)
		if err := l.Grow(40 * mb); err != nil {
			e := perigee.AsError(err)
			if e.Class != perigee.ClassCapacity || e.Retry <= 0 || !errors.Is(err, perigee.ErrNoMemory) || e.Hint == "" {
				t.Errorf("refused with %+v", e)
			}
			l.Close()
			break
		}
		large = append(large, l)
	}
	if len(large) != 3 { // of 192 MiB large leases may have 144
		t.Errorf("%d leases of 40 MiB fit into 256 MiB", len(large))
	}
	fill := func(bytes int64) (n int, leases []*Lease) {
		for {
			l := &Lease{}
			if l.Open(b, false) != nil {
				return n, leases
			}
			if l.Grow(bytes) != nil {
				l.Close()
				return n, leases
			}
			n, leases = n+1, append(leases, l)
		}
	}
	mediums, _ := fill(4 * mb)
	if mediums < 8 {
		t.Errorf("beside large leases, %d medium ones fit", mediums)
	}
	if smalls, _ := fill(100 << 10); smalls < 100 {
		t.Errorf("beside large and medium leases, %d small ones fit", smalls)
	}
	forced := &Lease{}
	if err := forced.Open(b, true); err != nil {
		t.Error(err)
	}
	if err := forced.Grow(100 * mb); err != nil {
		t.Error(err)
	}
}

func TestGrowthMovesALeaseAmongTheLargeOnes(t *testing.T) {
	b := New(256*mb, nil)
	first := open(t, b)
	if err := first.Grow(140 * mb); err != nil {
		t.Fatal(err)
	}
	l := open(t, b)
	for l.bytes.Load() < medium {
		if err := l.Grow(512 << 10); err != nil {
			break
		}
	}
	if err := l.Grow(4 * mb); err == nil {
		t.Error("a lease that grew beyond a medium one took of the part for small ones")
	}
	if before := l.bytes.Load(); l.Fits(40*mb) == nil || l.bytes.Load() != before {
		t.Errorf("40 MiB fit beside 140, or asking for them has changed the lease")
	}
	first.Shrink(100 * mb)
	if err := l.Grow(40 * mb); err != nil {
		t.Error(err)
	}
}

func TestEverythingIsReleased(t *testing.T) {
	var watched int64
	b := New(256*mb, func(delta int64) { watched += delta })
	l := open(t, b)
	if err := l.Grow(10 * mb); err != nil {
		t.Fatal(err)
	}
	l.Shrink(4 * mb)
	if b.Used() != Base+6*mb || watched != 6*mb {
		t.Errorf("%d used, %d watched", b.Used(), watched)
	}
	l.Close()
	l.Close()
	if b.Used() != 0 || watched != 0 {
		t.Errorf("%d used, %d watched after the last lease", b.Used(), watched)
	}
}

func TestALeaseReleasesNoMoreThanItHas(t *testing.T) {
	var watched int64
	b := New(256*mb, func(delta int64) { watched += delta })
	other, l := open(t, b), open(t, b)
	if err := l.Grow(mb); err != nil {
		t.Fatal(err)
	}
	l.Shrink(3 * mb)
	if b.Used() != 2*Base || l.bytes.Load() != Base || watched != 0 {
		t.Errorf("%d used, %d held, %d watched", b.Used(), l.bytes.Load(), watched)
	}
	l.Close()
	other.Close()
	if b.Used() != 0 || watched != 0 {
		t.Errorf("%d used, %d watched after the last lease", b.Used(), watched)
	}
}

func TestResize(t *testing.T) {
	b := New(256*mb, nil)
	l := open(t, b)
	if err := l.Grow(100 * mb); err != nil {
		t.Fatal(err)
	}
	b.Resize(64 * mb)
	if l.Grow(1) == nil {
		t.Error("a lease grows in a budget that is smaller than what it has")
	}
	if (&Lease{}).Open(b, false) == nil {
		t.Error("a lease was opened in a full budget")
	}
	b.Resize(1024 * mb)
	if err := l.Grow(200 * mb); err != nil {
		t.Error(err)
	}
}

func TestWithoutABudget(t *testing.T) {
	var l Lease
	if err := l.Open(nil, false); err != nil {
		t.Fatal(err)
	}
	if err := l.Grow(1 << 40); err != nil {
		t.Fatal(err)
	}
	l.Shrink(1 << 40)
	l.Close()
}

// A lease that is being refused must not count for other leases meanwhile.
func TestRefusalsDoNotCrowdOutSmallLeases(t *testing.T) {
	b := New(256*mb, nil)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 2000 {
				var l Lease
				if err := l.Open(b, false); err != nil {
					t.Error(err)
					return
				}
				if l.Grow(1<<30) == nil {
					t.Error("1 GiB fits into 256 MiB")
				}
				l.Close()
			}
		})
	}
	await.Return(t, group.Wait, "the goroutines")
	if b.Used() != 0 {
		t.Errorf("%d bytes are used by no lease", b.Used())
	}
}

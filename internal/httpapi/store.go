package httpapi

import (
	"context"
	"fmt"

	"perigee"
)

// A StoreKeeper is the store as its owner sees it.
type StoreKeeper interface {
	StoreReport(ctx context.Context) (perigee.StoreReport, error)
	CompactStore(ctx context.Context) (perigee.StoreCompacted, error)
}

// storeReport answers GET /v1/store: what is kept, and what it takes.
func (c *call) storeReport() error {
	if c.opts.Keeper == nil {
		return noStore()
	}
	report, err := c.opts.Keeper.StoreReport(c.r.Context())
	if err != nil {
		return err
	}
	return c.writeValue(report)
}

// storeCompact answers POST /v1/store/compact. It ends when its client goes away.
func (c *call) storeCompact() error {
	if c.opts.Keeper == nil {
		return noStore()
	}
	done, err := c.opts.Keeper.CompactStore(c.r.Context())
	c.audit(perigee.AuditEntry{Action: perigee.AuditStoreCompact, Object: done.Database, Detail: fmt.Sprintf("%d bytes freed", done.Freed)}, err)
	if err != nil {
		return err
	}
	return c.writeValue(done)
}

func noStore() error { return perigee.Errorf(perigee.ClassUnimplemented, "nothing is stored here") }

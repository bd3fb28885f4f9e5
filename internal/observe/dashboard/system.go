package dashboard

import (
	"context"
	"runtime"
	"time"

	"perigee/internal/observe/dashboard/pages"
)

// windowsTime is how long the page about the system waits for editor windows and the store.
const windowsTime = 3 * time.Second

// system shows the state of the daemon.
func (v *visit) system() error {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	page := pages.System{
		Status: v.opts.Status(), Started: v.opts.Started, Open: v.opts.Live.Count(),
		GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Memory: int64(mem.HeapAlloc), Held: int64(mem.Sys - mem.HeapReleased),
		Goroutines: runtime.NumGoroutine(), Unready: v.redactAll(v.opts.Unready()),
		Langservers: v.opts.Langservers(), CA: v.opts.CA(), Warnings: v.opts.Warnings(),
	}
	for i := range page.Langservers {
		page.Langservers[i].LastExit = v.opts.Redact(page.Langservers[i].LastExit)
	}
	for i := range page.Warnings {
		page.Warnings[i].Text = v.opts.Redact(page.Warnings[i].Text)
	}
	ctx, cancel := context.WithTimeout(v.ctx, windowsTime)
	defer cancel()
	var err error
	if page.Windows, err = v.opts.Windows(ctx); err != nil {
		page.WindowsError = v.opts.Redact(err.Error())
	}
	for i := range page.Windows {
		w := &page.Windows[i]
		w.Name, w.Version = v.opts.Redact(w.Name), v.opts.Redact(w.Version)
	}
	if page.Store, err = v.opts.Store(ctx); err != nil {
		page.StoreError = v.opts.Redact(err.Error())
	}
	return v.render(200, "System", "system", page)
}

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
	page := pages.System{Started: v.opts.Started, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Memory: int64(mem.HeapAlloc), Held: int64(mem.Sys - mem.HeapReleased), Goroutines: runtime.NumGoroutine()}
	if v.opts.Status != nil {
		page.Status = v.opts.Status()
	}
	page.Open = v.openCount()
	page.Unready = v.unready()
	if v.opts.Langservers != nil {
		page.Langservers = v.opts.Langservers()
		for i := range page.Langservers {
			page.Langservers[i].LastExit = v.opts.Redact(page.Langservers[i].LastExit)
		}
	}
	v.addSlow(&page)
	if v.opts.CA != nil {
		page.CA = v.opts.CA()
	}
	if v.opts.Warnings != nil {
		page.HasWarnings = true
		for _, w := range v.opts.Warnings() {
			w.Text = v.opts.Redact(w.Text)
			page.Warnings = append(page.Warnings, w)
		}
	}
	return v.render(200, "System", "system", page)
}

// addSlow adds what has to be asked for.
func (v *visit) addSlow(page *pages.System) {
	ctx, cancel := context.WithTimeout(v.ctx, windowsTime)
	defer cancel()
	if v.opts.Windows != nil {
		page.HasWindows = true
		list, err := v.opts.Windows(ctx)
		if err != nil {
			page.WindowsError = v.opts.Redact(err.Error())
		}
		for _, w := range list {
			w.Name, w.Version = v.opts.Redact(w.Name), v.opts.Redact(w.Version)
			page.Windows = append(page.Windows, w)
		}
	}
	if v.opts.Store != nil {
		var err error
		if page.Store, err = v.opts.Store(ctx); err != nil {
			page.StoreError = v.opts.Redact(err.Error())
		}
	}
}

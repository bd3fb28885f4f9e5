package dashboard

import (
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/pages"
	"perigee/internal/server/mount"
)

// upstreams shows the last hour of all upstreams.
func (v *visit) upstreams() error {
	list, cut, err := v.activities()
	if err != nil {
		return err
	}
	return v.render(200, "Upstreams", "upstreams", pages.Upstreams{List: list, Cut: cut})
}

// upstream shows one upstream: its last hour, and its models.
func (v *visit) upstream() error {
	list, cut, err := v.activities()
	if err != nil {
		return err
	}
	name := mount.Wildcard(v.r)
	i := slices.IndexFunc(list, func(u pages.Upstream) bool { return u.Name == name })
	if i < 0 {
		return perigee.Errorf(perigee.ClassNotFound, "there is no upstream %s", mount.Shorten(name)).
			WithHint("the page Upstreams lists those of the configuration in force")
	}
	page, problems := list[i], []string(nil)
	page.Cut = cut
	page.Models, problems = v.listModels(name)
	page.Problem = strings.Join(problems, "; ")
	return v.render(200, page.Name, "upstreams", page)
}

// activities returns the upstreams in force with their last hour. cut is set if there were more calls
// than were looked at.
func (v *visit) activities() (list []pages.Upstream, cut bool, err error) {
	calls, err := v.opts.Calls.Calls(v.ctx, perigee.CallQuery{Sent: true, Since: v.now.Add(-time.Hour), Limit: maxSummed})
	if err != nil {
		return nil, false, err
	}
	keys := v.opts.Status().Keys
	for _, state := range v.opts.Upstreams() {
		u := pages.Upstream{UpstreamState: state, Hour: pages.LastHour(calls, state.Name, v.now, v.opts.Zone)}
		u.Unready = v.opts.Redact(u.Unready)
		for _, k := range keys {
			if k.Upstream == u.Name {
				k.Why = v.opts.Redact(k.Why)
				u.Keys = append(u.Keys, k)
			}
		}
		for i := range u.Hour.Errors {
			e := &u.Hour.Errors[i]
			e.Text = v.opts.Redact(e.Text)
		}
		list = append(list, u)
	}
	return list, len(calls) == maxSummed, nil
}

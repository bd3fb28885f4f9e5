package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/pages"
	"perigee/internal/observe/dashboard/view"
	"perigee/internal/server/mount"
)

// quotaTime is how long the page about accounts waits for providers.
const quotaTime = 4 * time.Second

// accounts lists accounts with their cooldowns and quota.
func (v *visit) accounts() error {
	if v.control().AccountControl == nil {
		return v.render(200, "Accounts", "accounts", pages.Accounts{None: true})
	}
	rows, err := v.control().Accounts(v.ctx)
	if err != nil {
		return err
	}
	page := pages.Accounts{Token: v.session.FormToken(), None: len(rows) == 0}
	quota := v.quota(&page, len(rows) > 0)
	for _, row := range rows {
		row.Reason = v.opts.Redact(row.Reason)
		row.Cooldowns = slices.Clone(row.Cooldowns)
		for i := range row.Cooldowns {
			row.Cooldowns[i].Reason = v.opts.Redact(row.Cooldowns[i].Reason)
		}
		i := slices.IndexFunc(page.Upstreams, func(g pages.AccountGroup) bool { return g.Upstream == row.Upstream })
		if i < 0 {
			i, page.Upstreams = len(page.Upstreams), append(page.Upstreams, pages.AccountGroup{Upstream: row.Upstream})
		}
		card := pages.AccountCard{AccountRow: row}
		card.Tone, card.Status = accountTone(row)
		card.Quota = quotaBars(quota.Rows, row)
		for _, p := range quota.Problems {
			if p.Email == row.Email && p.Upstream == row.Upstream {
				card.Problem = v.opts.Redact(p.Why)
			}
		}
		page.Upstreams[i].Accounts = append(page.Upstreams[i].Accounts, card)
	}
	return v.render(200, "Accounts", "accounts", page)
}

// quota asks for what the accounts have left, and adds to the page why it is not known.
func (v *visit) quota(page *pages.Accounts, wanted bool) (list perigee.QuotaList) {
	if v.control().QuotaControl == nil || !wanted {
		return list
	}
	ctx, cancel := context.WithTimeout(v.ctx, quotaTime)
	defer cancel()
	list, err := v.control().Quota(ctx, false)
	if err != nil {
		page.Problems = append(page.Problems, "The quota is not known: "+v.opts.Redact(perigee.AsError(err).Message))
	}
	for _, p := range list.Problems {
		if p.Email == "" {
			page.Problems = append(page.Problems, v.opts.Redact(p.Upstream+": "+p.Why))
		}
	}
	return list
}

// accountTone says how an account is, in a colour and in words.
func accountTone(row perigee.AccountRow) (tone, words string) {
	switch {
	case row.Unopened:
		return "bad", "cannot be decrypted"
	case !perigee.UsableState(row.State):
		return "bad", strings.ReplaceAll(row.State, "_", " ")
	case !row.Enabled:
		return "off", "disabled"
	case len(row.Cooldowns) > 0:
		return "warn", "cooling down"
	}
	return "ok", cmp.Or(row.State, perigee.AccountReady)
}

// quotaBars returns the quota of an account, models that are counted together in one bar.
func quotaBars(rows []perigee.QuotaRow, account perigee.AccountRow) (bars []pages.QuotaBar) {
	for _, r := range rows {
		if r.Account != account.Email || r.Upstream != account.Upstream {
			continue
		}
		name := cmp.Or(r.Group, r.Model)
		if slices.ContainsFunc(bars, func(b pages.QuotaBar) bool {
			return b.Name == name && b.Pool == r.Pool && b.Remaining == r.Remaining && b.ResetsAt.Equal(r.ResetsAt)
		}) {
			continue
		}
		b := pages.QuotaBar{Name: name, Pool: r.Pool, Remaining: r.Remaining, Width: view.Number(min(1, max(0, r.Remaining)) * 100),
			ResetsAt: r.ResetsAt, RunsOutAt: r.RunsOutAt, Windows: r.Windows, Tone: "ok"}
		switch {
		case r.Remaining <= 0.05:
			b.Tone = "bad"
		case r.Remaining <= 0.25 || !r.RunsOutAt.IsZero():
			b.Tone = "warn"
		}
		bars = append(bars, b)
	}
	slices.SortStableFunc(bars, func(a, b pages.QuotaBar) int { return strings.Compare(a.Name+" "+a.Pool, b.Name+" "+b.Pool) })
	return bars
}

// changeAccount enables, disables or prefers an account.
func (v *visit) changeAccount() error {
	path := mount.Wildcard(v.r)
	i := strings.LastIndexByte(path, '/')
	if i < 0 || v.control().AccountControl == nil {
		return v.missing()
	}
	name := perigee.AccountName{Email: path[:i], Upstream: v.r.PostForm.Get("upstream")}
	var err error
	var done string
	switch path[i+1:] {
	case "enable":
		_, err = v.control().EnableAccount(v.ctx, name, true)
		done = " is enabled."
	case "disable":
		_, err = v.control().EnableAccount(v.ctx, name, false)
		done = " is disabled. It is not used until you enable it again."
	case "use":
		err = v.control().UseAccount(v.ctx, name)
		done = " is used first, and its cooldowns have ended."
	default:
		return v.missing()
	}
	if err != nil {
		return err
	}
	v.session.SetNotice(name.Email + done)
	return v.redirect("/dashboard/accounts")
}

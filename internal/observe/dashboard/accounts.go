package dashboard

import (
	"context"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/observe/dashboard/pages"
	"perigee/internal/server/mount"
)

// quotaTime is how long the page about accounts waits for providers.
const quotaTime = 4 * time.Second

// accounts lists accounts with their cooldowns and quota.
func (v *visit) accounts() error {
	rows, err := v.accountRows()
	if err != nil {
		return err
	}
	page := pages.Accounts{Token: v.session.FormToken(), Rows: rows}
	if len(rows) == 0 {
		return v.render(200, "Accounts", "accounts", page)
	}
	ctx, cancel := context.WithTimeout(v.ctx, quotaTime)
	defer cancel()
	if page.Quota, err = v.opts.Control().Quota(ctx, false); err != nil {
		page.Problems = append(page.Problems, "The quota is not known: "+v.opts.Redact(perigee.AsError(err).Message))
	}
	page.Quota.Problems = slices.Clone(page.Quota.Problems)
	for i, p := range page.Quota.Problems {
		if p.Email == "" {
			page.Problems = append(page.Problems, v.opts.Redact(p.Upstream+": "+p.Why))
		}
		page.Quota.Problems[i].Why = v.opts.Redact(p.Why)
	}
	return v.render(200, "Accounts", "accounts", page)
}

// accountRows returns the accounts without secrets.
func (v *visit) accountRows() ([]perigee.AccountRow, error) {
	rows, err := v.opts.Control().Accounts(v.ctx)
	rows = slices.Clone(rows)
	for i := range rows {
		row := &rows[i]
		row.Reason = v.opts.Redact(row.Reason)
		row.Cooldowns = slices.Clone(row.Cooldowns)
		for i := range row.Cooldowns {
			c := &row.Cooldowns[i]
			c.Family, c.Reason = v.opts.Redact(c.Family), v.opts.Redact(c.Reason)
		}
	}
	return rows, err
}

// changeAccount enables, disables or prefers an account.
func (v *visit) changeAccount() error {
	path := mount.Wildcard(v.r)
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return v.missing()
	}
	name := perigee.AccountName{Email: path[:i], Upstream: v.r.PostForm.Get("upstream")}
	var err error
	var done string
	switch path[i+1:] {
	case "enable":
		_, err = v.opts.Control().EnableAccount(v.ctx, name, true)
		done = " is enabled."
	case "disable":
		_, err = v.opts.Control().EnableAccount(v.ctx, name, false)
		done = " is disabled. It is not used until you enable it again."
	case "use":
		err = v.opts.Control().UseAccount(v.ctx, name)
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

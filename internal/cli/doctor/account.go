package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"perigee"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/sqlstore"
)

// lowQuota is the fraction of a quota below which an account gets a warning.
const lowQuota = 0.1

// Accounts has the sources of the check of accounts.
type Accounts struct {
	List func(ctx context.Context) ([]perigee.AccountRow, error)
	// Quota refreshes the access token of each account. It is nil if quota is not read.
	Quota  func(ctx context.Context) (perigee.QuotaList, error)
	Reason string // why Quota is nil, such as "--offline"
	Now    time.Time
}

// Check reports each account: whether it may be used, whether the provider accepts it, and its
// remaining quota. Reading quota costs no tokens.
func (a Accounts) Check(ctx context.Context) []Result {
	rows, err := a.List(ctx)
	if err != nil {
		return []Result{fail(NameAccount+"*", "perigee account list", "accounts cannot be listed: %v", err)}
	}
	if len(rows) == 0 {
		return nil
	}
	var quota perigee.QuotaList
	if a.Quota != nil {
		if quota, err = a.Quota(ctx); err == nil {
			// An answer may have changed the state of an account.
			if again, failed := a.List(ctx); failed == nil {
				rows = again
			}
		}
	}
	var results []Result
	for _, row := range rows {
		result := stateOf(row)
		if result.Status == OK {
			switch {
			case a.Quota == nil:
				result.Detail += "; not tested because of " + a.Reason
			case err != nil && ctx.Err() != nil:
				result = warn(result.Check, "perigee doctor --timeout 5m", "%s; its sign-in could not be tested in time", result.Detail)
			case err != nil:
				result = warn(result.Check, "perigee quota --account "+commandLine(row.Email), "%s; its sign-in could not be tested: %v", result.Detail, err)
			default:
				result = a.withQuota(row, rows, quota, result)
			}
		}
		results = append(results, result)
	}
	return results
}

// stateOf returns the result for the stored state of an account.
func stateOf(row perigee.AccountRow) Result {
	name, upstream := NameAccount+row.Email, commandLine(row.Upstream)
	reason := ""
	if row.Reason != "" {
		reason = ": " + strings.ReplaceAll(row.Reason, "`perigee account enable`", "`perigee account enable "+row.Email+"`")
	}
	login := "perigee login --upstream " + upstream
	remove := "perigee account remove " + commandLine(row.Email)
	enable := "perigee account enable " + commandLine(row.Email)
	switch {
	case row.Unopened:
		return fail(name, login, "its refresh token cannot be decrypted%s", reason)
	case row.State == perigee.AccountSignedOut:
		return fail(name, login, "signed out%s", reason)
	case row.State == perigee.AccountVerification:
		return fail(name, enable, "the provider requires its owner to verify it%s", reason)
	case row.State == perigee.AccountBanned:
		return fail(name, "perigee account disable "+commandLine(row.Email), "the provider has disabled it%s", reason)
	case row.State == perigee.AccountMisnamed:
		return fail(name, remove+" && "+login, "its refresh token belongs to another account%s", reason)
	case !row.Enabled:
		return warn(name, enable, "disabled")
	}
	for _, c := range row.Cooldowns {
		return look(warn(name, "perigee quota", "not used for %s until %s: %s", c.Family, c.Until.UTC().Format(time.RFC3339), c.Reason))
	}
	return ok(name, "%s, of the upstream %s", cmp.Or(row.State, perigee.AccountReady), row.Upstream)
}

// withQuota adds the provider's answer about an account that may be used to its result.
func (a Accounts) withQuota(row perigee.AccountRow, all []perigee.AccountRow, quota perigee.QuotaList, result Result) Result {
	for _, p := range quota.Problems {
		if p.Email == row.Email && p.Upstream == row.Upstream {
			return fail(result.Check, "perigee login --upstream "+commandLine(row.Upstream), "%s", p.Why)
		}
	}
	groups := make(map[string]perigee.QuotaRow) // the scarcest model of each group
	for _, q := range quota.Rows {
		if q.Account != row.Email || q.Upstream != row.Upstream {
			continue
		}
		group := cmp.Or(q.Group, q.Model)
		if known, found := groups[group]; !found || q.Remaining < known.Remaining {
			groups[group] = q
		}
	}
	var low, fine []string
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		q := groups[group]
		text := fmt.Sprintf("%s %s", group, terminal.Percent(q.Remaining))
		if q.Remaining >= lowQuota {
			fine = append(fine, text)
			continue
		}
		if !q.ResetsAt.IsZero() {
			text += fmt.Sprintf(" until %s (in %s)", q.ResetsAt.UTC().Format(time.RFC3339), terminal.Span(q.ResetsAt.Sub(a.Now)))
		}
		low = append(low, text)
	}
	switch {
	case len(low) > 0:
		return warn(result.Check, another(row, all), "little quota is left: %s", strings.Join(low, ", "))
	case len(fine) > 0:
		result.Detail += "; left: " + strings.Join(fine, ", ")
	}
	return result
}

// another returns the command that makes perigee use another account, or adds one.
func another(row perigee.AccountRow, all []perigee.AccountRow) string {
	for _, r := range all {
		if r.Upstream == row.Upstream && r.Email != row.Email && stateOf(r).Status == OK {
			return "perigee account use " + commandLine(r.Email)
		}
	}
	return "perigee login --upstream " + commandLine(row.Upstream)
}

// StoredAccounts lists the accounts in the database without changing it. Whether their refresh
// tokens can be decrypted is not checked. A database that does not exist has none.
func StoredAccounts(ctx context.Context, options sqlstore.Options) ([]perigee.AccountRow, error) {
	options.ReadOnly = true
	store, err := sqlstore.Open(ctx, options)
	if e := perigee.AsError(err); e != nil && e.Class == perigee.ClassNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }()
	stored, err := store.Accounts(unopened{}).SignIns(ctx, "")
	if err != nil {
		return nil, err
	}
	rows := make([]perigee.AccountRow, len(stored))
	for i, s := range stored {
		rows[i] = perigee.AccountRow{Email: s.Email, Upstream: s.Upstream, Enabled: s.Enabled, Preferred: s.Preferred,
			ProjectID: s.ProjectID, State: s.State, Reason: s.Reason, Cooldowns: s.Cooldowns}
	}
	return rows, nil
}

// unopened is a sealer that leaves secrets sealed.
type unopened struct{}

func (unopened) Seal(perigee.Secret, ...string) (string, error) { return "", errors.ErrUnsupported }
func (unopened) Open(string, ...string) (perigee.Secret, error) { return perigee.Secret{}, nil }

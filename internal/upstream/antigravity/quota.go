package antigravity

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/adapt/models"
	"perigee/internal/adapt/providererr"
	"perigee/internal/lib/rawjson"
)

// QuotaOf returns the gateway's quota of one account, leased or not, in the pool of Antigravity,
// and with cli also in the pool of the command-line tool. It costs no tokens. Only the list of
// models is required: if another method fails, the rows have no windows, or the rows of the other
// pool are missing.
func (u *Upstream) QuotaOf(ctx context.Context, who pool.Source, cli bool) ([]perigee.QuotaRow, error) {
	// The first token may come with the project of the account; without a project the gateway
	// reports every quota as full.
	if _, err := who.Token(ctx); err != nil {
		return nil, u.quotaError(who, u.callError(ctx, err), err)
	}
	ask := func(method string) ([]byte, *providererr.Diagnosis) {
		return u.callFor(ctx, &unleased{who}, method, projectAlone)
	}

	raw, v := ask("fetchAvailableModels")
	if v != nil {
		return nil, u.quotaError(who, v.Error, &diagnosisError{*v})
	}
	rows, err := decodeModelQuota(raw)
	if err != nil {
		return nil, u.quotaError(who, perigee.Errorf(perigee.ClassUnavailable, "its quota cannot be read: %w", err), err)
	}
	if raw, v := ask("retrieveUserQuotaSummary"); v == nil {
		addWindows(rows, raw)
	} else {
		u.opts.Logger.Debug("quota summary failed", "upstream", u.opts.Name, "kind", v.Kind)
	}
	if cli {
		if raw, v := ask("retrieveUserQuota"); v == nil {
			rows = append(rows, decodeCLIQuota(raw)...)
		} else {
			u.opts.Logger.Debug("quota of the other pool failed", "upstream", u.opts.Name, "kind", v.Kind)
		}
	}
	for i := range rows {
		rows[i].Account, rows[i].Upstream, rows[i].Group = who.SignIn().Email, u.opts.Name, quotaGroupOf(rows[i].Model).listed
	}
	slices.SortStableFunc(rows, func(a, b perigee.QuotaRow) int { return strings.Compare(a.Model, b.Model) })
	return rows, ctx.Err()
}

// projectAlone encodes the request of methods that have the project as their only parameter.
func projectAlone(lease pool.Lease) []byte {
	return append(rawjson.AppendString([]byte(`{"project":`), lease.Account().Project), '}')
}

// callFor makes a call with one account, and once more after a refused token or project was
// replaced.
func (u *Upstream) callFor(ctx context.Context, lease pool.Lease, method string, request func(pool.Lease) []byte) ([]byte, *providererr.Diagnosis) {
	project := lease.Account().Project
	raw, v := u.call(ctx, lease, method, request(lease))
	if v != nil && v.Kind == providererr.KindUnauthenticated {
		if token, err := lease.Token(ctx); err == nil {
			lease.Refused(token)
			raw, v = u.call(ctx, lease, method, request(lease))
		}
	}
	if v != nil && findsProject(ctx, lease, v, project) {
		if _, err := lease.Token(ctx); err == nil { // it may come with the project
			raw, v = u.call(ctx, lease, method, request(lease))
		}
	}
	return raw, v
}

// findsProject looks up the project of an account if the provider may have refused the project,
// and reports whether the account has another one. For an unknown project the provider answers
// "not found" or "forbidden" without naming the project.
func findsProject(ctx context.Context, lease pool.Lease, v *providererr.Diagnosis, refused string) bool {
	switch v.Kind {
	case providererr.KindProject, providererr.KindNotFound, providererr.KindForbidden:
		finder, ok := lease.(pool.ProjectFinder)
		return ok && refused != "" && finder.FindProject(ctx, refused)
	}
	return false
}

// quotaError adds the account to an error, for callers that ask about several.
func (u *Upstream) quotaError(who pool.Source, e *perigee.Error, cause error) error {
	named := *e
	named.Upstream, named.Account, named.Cause = u.opts.Name, who.SignIn().Email, cause
	named.Message = fmt.Sprintf("%s: %s", named.Account, named.Message)
	return &named
}

// An unleased account is used for queries about the account itself. No call waits for it, and the
// outcome does not change its state in the pool.
type unleased struct{ pool.Source }

func (l *unleased) Account() pool.Leased {
	s := l.SignIn()
	return pool.Leased{Email: s.Email, Project: s.ProjectID, Why: "asked about its quota"}
}
func (l *unleased) Answering()                  {}
func (l *unleased) Done(*providererr.Diagnosis) {}
func (l *unleased) FindProject(ctx context.Context, refused string) bool {
	finder, ok := l.Source.(pool.ProjectFinder)
	return ok && finder.FindProject(ctx, refused)
}

// A quotaGroup is the name of models that share a quota, in listings and in the gateway's summary.
// It is empty in the summary for some groups.
type quotaGroup struct{ listed, summary string }

func quotaGroupOf(model string) quotaGroup {
	switch models.Of(model).Family {
	case models.Gemini, models.Gemini2:
		return quotaGroup{"gemini", "gemini"}
	case models.Claude, models.GPTOSS:
		return quotaGroup{"claude", "3p"}
	case models.Image:
		return quotaGroup{"image", ""}
	}
	return quotaGroup{"other", ""}
}

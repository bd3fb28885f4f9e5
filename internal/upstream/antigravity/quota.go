package antigravity

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/account"
	"perigee/internal/models"
	"perigee/internal/rawjson"
	"perigee/internal/verdict"
)

// QuotaOf asks the gateway what one account has left, lent or not, in the pool that its own client uses, and when cli
// says so in the other one as well. Asking costs no tokens.
//
// What only some of the endpoints tell is a bonus: without it there are no windows, or no rows of the other pool.
func (u *Upstream) QuotaOf(ctx context.Context, who account.Source, cli bool) ([]perigee.QuotaRow, error) {
	// The first token may bring the account its project; without one the gateway reports everything as full.
	if _, err := who.Token(ctx); err != nil {
		return nil, u.quotaTrouble(who, u.trouble(ctx, err), err)
	}
	ask := func(method string) ([]byte, *verdict.Verdict) {
		return u.callFor(ctx, &unlent{who}, method, projectAlone)
	}

	raw, v := ask("fetchAvailableModels")
	if v != nil {
		return nil, u.quotaTrouble(who, v.Error, &verdictError{*v})
	}
	rows, err := decodeModelQuota(raw)
	if err != nil {
		return nil, u.quotaTrouble(who, perigee.Errorf(perigee.ClassUnavailable, "its quota cannot be read: %w", err), err)
	}
	if raw, v := ask("retrieveUserQuotaSummary"); v == nil {
		addWindows(rows, raw)
	} else {
		u.opts.Logger.Debug("no summary of the quota", "upstream", u.opts.Name, "kind", v.Kind)
	}
	if cli {
		if raw, v := ask("retrieveUserQuota"); v == nil {
			rows = append(rows, decodeCLIQuota(raw)...)
		} else {
			u.opts.Logger.Debug("no quota of the other pool", "upstream", u.opts.Name, "kind", v.Kind)
		}
	}
	for i := range rows {
		rows[i].Account, rows[i].Upstream, rows[i].Group = who.SignIn().Email, u.opts.Name, groupWord(rows[i].Model)
	}
	slices.SortStableFunc(rows, func(a, b perigee.QuotaRow) int { return strings.Compare(a.Model, b.Model) })
	return rows, ctx.Err()
}

// projectAlone is the request of methods that want to know the project and nothing else.
func projectAlone(loan account.Loan) []byte {
	return append(rawjson.AppendString([]byte(`{"project":`), loan.Project()), '}')
}

// callFor makes a call with one account, and once more when only its token was too old, or its project was not its own.
func (u *Upstream) callFor(ctx context.Context, loan account.Loan, method string, request func(account.Loan) []byte) ([]byte, *verdict.Verdict) {
	project := loan.Project()
	raw, v := u.call(ctx, loan, method, request(loan))
	if v != nil && v.Kind == verdict.KindUnauthenticated {
		if token, err := loan.Token(ctx); err == nil {
			loan.Refused(token)
			raw, v = u.call(ctx, loan, method, request(loan))
		}
	}
	if v != nil && findsProject(ctx, loan, v, project) {
		if _, err := loan.Token(ctx); err == nil { // it may bring the project
			raw, v = u.call(ctx, loan, method, request(loan))
		}
	}
	return raw, v
}

// findsProject looks the project of an account up if it may be what the provider has refused, and says whether it is
// another one. Of a project that it does not know the provider says no more than that there is no such thing, or that it is
// not permitted.
func findsProject(ctx context.Context, loan account.Loan, v *verdict.Verdict, refused string) bool {
	switch v.Kind {
	case verdict.KindProject, verdict.KindNotFound, verdict.KindForbidden:
		finder, ok := loan.(account.ProjectFinder)
		return ok && refused != "" && finder.FindProject(ctx, refused)
	}
	return false
}

// quotaTrouble names the account that could not be asked: who asks about several must know which.
func (u *Upstream) quotaTrouble(who account.Source, e *perigee.Error, cause error) error {
	named := *e
	named.Upstream, named.Account, named.Cause = u.opts.Name, who.SignIn().Email, cause
	named.Message = fmt.Sprintf("%s: %s", named.Account, named.Message)
	return &named
}

// An unlent account is asked about itself. Nobody waits for it, and how it went changes nothing for those who do.
type unlent struct{ account.Source }

func (l *unlent) Email() string         { return l.SignIn().Email }
func (l *unlent) Project() string       { return l.SignIn().ProjectID }
func (l *unlent) CLI() bool             { return false }
func (l *unlent) Why() string           { return "asked about its quota" }
func (l *unlent) Answering()            {}
func (l *unlent) Done(*verdict.Verdict) {}
func (l *unlent) FindProject(ctx context.Context, refused string) bool {
	finder, ok := l.Source.(account.ProjectFinder)
	return ok && finder.FindProject(ctx, refused)
}

// groupWord is what listings call the models that share a quota with this one.
func groupWord(model string) string {
	switch models.Of(model).Family {
	case models.Gemini, models.Gemini2:
		return "gemini"
	case models.Claude, models.GPTOSS:
		return "claude"
	case models.Image:
		return "image"
	}
	return "other"
}

// quotaGroup is the word that the summary has for models that share a quota; empty when it has none that is sure.
func quotaGroup(model string) string {
	switch models.Of(model).Family {
	case models.Gemini, models.Gemini2:
		return "gemini"
	case models.Claude, models.GPTOSS:
		return "3p"
	}
	return ""
}

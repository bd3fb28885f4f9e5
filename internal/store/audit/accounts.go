package audit

import (
	"context"
	"strconv"
	"strings"

	"perigee"
)

// Accounts returns a control of accounts that records every act that changes something, whether it
// succeeds or not.
func (l *Log) Accounts(c perigee.AccountControl) perigee.AccountControl { return accounts{c, l} }

type accounts struct {
	perigee.AccountControl
	log *Log
}

// record records an act that ended with err. If the row cannot be stored, the act is not undone:
// undoing it could fail as well, and the log has its line.
func (c accounts) record(ctx context.Context, action, object, detail string, err error) {
	_ = c.log.Record(ctx, perigee.AuditEntry{Action: action, Object: object, Detail: detail, Result: ResultOf(err)})
}

func (c accounts) ImportAccounts(ctx context.Context, in perigee.AccountImport) ([]perigee.ImportedRow, error) {
	rows, err := c.AccountControl.ImportAccounts(ctx, in)
	var emails []string
	upstream, skipped := in.Upstream, 0
	for _, row := range rows {
		if upstream = row.Upstream; row.Result == perigee.ImportSkipped {
			skipped++
			continue
		}
		emails = append(emails, row.Email)
	}
	detail := ofUpstream(upstream)
	if skipped > 0 {
		detail += ", " + strconv.Itoa(skipped) + " skipped"
	}
	c.record(ctx, perigee.AuditAccountImport, strings.Join(emails, ", "), detail, err)
	return rows, err
}

func (c accounts) EnableAccount(ctx context.Context, name perigee.AccountName, enabled bool) (perigee.AccountRow, error) {
	row, err := c.AccountControl.EnableAccount(ctx, name, enabled)
	action := perigee.AuditAccountDisable
	if enabled {
		action = perigee.AuditAccountEnable
	}
	c.record(ctx, action, name.Email, ofUpstream(name.Upstream), err)
	return row, err
}

func (c accounts) RemoveAccount(ctx context.Context, name perigee.AccountName) error {
	err := c.AccountControl.RemoveAccount(ctx, name)
	c.record(ctx, perigee.AuditAccountRemove, name.Email, ofUpstream(name.Upstream), err)
	return err
}

func (c accounts) UseAccount(ctx context.Context, name perigee.AccountName) error {
	err := c.AccountControl.UseAccount(ctx, name)
	c.record(ctx, perigee.AuditAccountUse, name.Email, ofUpstream(name.Upstream), err)
	return err
}

func ofUpstream(name string) string {
	if name == "" {
		return ""
	}
	return "upstream " + name
}

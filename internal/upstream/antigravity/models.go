package antigravity

import (
	"context"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/account/pool"
	"perigee/internal/lib/rawjson"
)

// hidden reports whether an ID is one that the gateway lists for its own editor, such as
// completions and experiments. Those models do not chat.
func hidden(id string) bool {
	return strings.HasPrefix(id, "chat_") || strings.HasPrefix(id, "tab_")
}

// Models returns the models that the gateway lists for the account. Routing fills in properties
// that the gateway does not report.
func (u *Upstream) Models(ctx context.Context) ([]perigee.Model, error) {
	raw, err := u.control(ctx, nil, "fetchAvailableModels", projectAlone)
	if err != nil {
		return nil, err
	}
	list, err := decodeModels(raw, u.opts.Name)
	if err != nil {
		return nil, perigee.Errorf(perigee.ClassUnavailable, "upstream %s sent a list of models that cannot be read: %w", u.opts.Name, err)
	}
	return list, nil
}

// control makes a call that involves no model, with any account that can be used. It adds the
// accounts that could not be used to log, which may be nil.
func (u *Upstream) control(ctx context.Context, log *perigee.CallLog, method string, request func(pool.Lease) []byte) ([]byte, error) {
	lease, err := u.opts.Accounts.Acquire(pool.Request{OnTokenFailure: u.tokenFailures(log)}).Next(ctx)
	if err != nil {
		return nil, err
	}
	raw, v := u.callFor(ctx, lease, method, request)
	lease.Done(v)
	if v != nil {
		e := *v.Error
		e.Upstream, e.Account = u.opts.Name, lease.Account().Email
		return nil, &e
	}
	return raw, nil
}

func decodeModels(raw []byte, upstream string) ([]perigee.Model, error) {
	if err := rawjson.Check(raw); err != nil {
		return nil, err
	}
	var list []perigee.Model
	c := rawjson.NewCursor(raw)
	for key := range c.Object() {
		if string(key) != "models" {
			continue
		}
		for id := range c.Object() {
			m := perigee.Model{ID: string(id), Upstream: upstream, Methods: []string{"generateContent", "streamGenerateContent", "countTokens"}}
			readModel(c, &m)
			if !hidden(m.ID) {
				list = append(list, m)
			}
		}
	}
	slices.SortFunc(list, func(a, b perigee.Model) int { return strings.Compare(a.ID, b.ID) })
	return list, c.Err()
}

func readModel(c *rawjson.Cursor, m *perigee.Model) {
	for key := range c.Object() {
		switch string(key) {
		case "displayName":
			m.DisplayName = c.String()
		case "maxTokens":
			m.Context = c.Int64()
		case "maxOutputTokens":
			m.Output = c.Int64()
		case "supportsThinking":
			m.Thinking = c.Bool()
		}
	}
}

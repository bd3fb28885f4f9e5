package antigravity

import (
	"context"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/account"
	"perigee/internal/models"
	"perigee/internal/rawjson"
)

// hidden are ids that the gateway lists for its own editor: completions and experiments, nothing to talk to.
func hidden(id string) bool {
	return strings.HasPrefix(id, "chat_") || strings.HasPrefix(id, "tab_")
}

// Models asks the gateway which models the account has.
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

// control makes a call that asks no model, with whichever account is at hand. Steps gets those that could not be asked; it may
// be nil.
func (u *Upstream) control(ctx context.Context, steps *perigee.Steps, method string, request func(account.Loan) []byte) ([]byte, error) {
	loan, err := u.opts.Accounts.Borrow(account.Want{Witness: clerk{u.opts.Name, steps}}).Next(ctx)
	if err != nil {
		return nil, err
	}
	raw, v := u.callFor(ctx, loan, method, request)
	loan.Done(v)
	if v != nil {
		e := *v.Error
		e.Upstream, e.Account = u.opts.Name, loan.Email()
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
				list = append(list, complete(m))
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

// complete adds what we know of a model and the gateway does not say.
func complete(m perigee.Model) perigee.Model {
	spec, ok := models.Lookup(m.ID)
	if !ok {
		return m
	}
	if m.DisplayName == "" {
		m.DisplayName = spec.Name
	}
	if m.Context == 0 {
		m.Context = spec.Context
	}
	if m.Output == 0 {
		m.Output = spec.Output
	}
	m.Thinking = m.Thinking || spec.Thinking.Possible()
	return m
}

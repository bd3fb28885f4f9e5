package simulator

import (
	"net/http"
	"slices"
	"strconv"

	"perigee/internal/simulator/anthropic"
)

// listModels serves a page of the models: after or before an ID, the newest first.
func (m *messagesWire) listModels(x *exchange) {
	if x.strikeSmall(stageModel) {
		return
	}
	query, page := x.r.URL.Query(), anthropic.ModelTable()
	limit := 20
	if given := query.Get("limit"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > 1000 {
			m.refuse(x, anthropic.NewRefusal(http.StatusBadRequest, "models.limit", "limit: Input should be between 1 and 1000"))
			return
		}
		limit = n
	}
	more := false
	for _, cursor := range []string{"after_id", "before_id"} {
		id := query.Get(cursor)
		if id == "" {
			continue
		}
		at := slices.IndexFunc(page, func(m anthropic.Model) bool { return m.ID == id })
		switch {
		case at < 0:
			m.refuse(x, anthropic.NewRefusal(http.StatusBadRequest, "models.cursor", "%s: no model has the ID %s", cursor, id))
			return
		case cursor == "after_id":
			page = page[at+1:]
		default:
			page = page[:at]
			more = len(page) > limit
			page = page[max(len(page)-limit, 0):]
		}
	}
	if len(page) > limit {
		page, more = page[:limit], true
	}
	out := struct {
		Data    []any   `json:"data"`
		HasMore bool    `json:"has_more"`
		First   *string `json:"first_id"`
		Last    *string `json:"last_id"`
	}{Data: []any{}, HasMore: more}
	for _, model := range page {
		out.Data = append(out.Data, model.Info())
	}
	if len(page) > 0 {
		out.First, out.Last = &page[0].ID, &page[len(page)-1].ID
	}
	x.writeValue(out)
}

func (m *messagesWire) getModel(x *exchange, id string) {
	if x.strikeSmall(stageModel) {
		return
	}
	model, found := anthropic.FindModel(id)
	if !found {
		m.refuse(x, anthropic.NewRefusal(http.StatusNotFound, "model.unknown", "model: %s", id))
		return
	}
	x.writeValue(model.Info())
}

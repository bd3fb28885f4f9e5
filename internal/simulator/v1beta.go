package simulator

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"perigee/internal/simulator/rules"
)

// routeOfficial serves /v1beta/models: the list, one model, and the methods of a model.
func (x *exchange) routeOfficial(rest string) {
	if refused := x.checkKey(); refused != nil {
		x.writeError(refused)
		return
	}
	if x.strikeAuth() {
		return
	}
	name, method, isMethod := strings.Cut(rest, ":")
	switch {
	case rest == "" && x.r.Method == http.MethodGet:
		x.listModels()
	case rest == "" || isMethod != (x.r.Method == http.MethodPost):
		writeNotFoundPage(x.w)
	case !isMethod:
		x.getModel(name)
	default:
		x.officialMethod(name, method)
	}
}

type officialModel struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	DisplayName string   `json:"displayName"`
	Description string   `json:"description"`
	Input       int64    `json:"inputTokenLimit,omitempty"`
	Output      int64    `json:"outputTokenLimit,omitempty"`
	Methods     []string `json:"supportedGenerationMethods"`
	Thinking    bool     `json:"thinking,omitempty"`
}

func official(m rules.Model) officialModel {
	out := officialModel{Name: "models/" + m.ID, Version: "001", DisplayName: label(m.ID), Description: "Simulated " + label(m.ID) + ".",
		Input: m.Context, Output: m.MaxOutput, Thinking: m.MaxBudget > 0 && m.Family != rules.Image,
		Methods: []string{"generateContent", "countTokens"}}
	if m.Family == rules.Embedding {
		out.Methods = []string{"embedContent", "countTokens"}
	}
	return out
}

const (
	defaultPage = 50
	maxPage     = 1000
)

func (x *exchange) listModels() {
	if x.strikeSmall(stageModel) {
		return
	}
	query, all := x.r.URL.Query(), x.server.catalogue.models
	size := defaultPage
	if given := query.Get("pageSize"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 0 {
			x.writeError(invalid("models.page_size", "Invalid value at 'page_size' (TYPE_INT32), %q", given))
			return
		}
		if n > 0 {
			size = min(n, maxPage)
		}
	}
	start, ok := readPageToken(query.Get("pageToken"), len(all))
	if !ok {
		x.writeError(invalid("models.page_token", "Page token is invalid."))
		return
	}
	end := min(start+size, len(all))
	page := struct {
		Models []officialModel `json:"models"`
		Next   string          `json:"nextPageToken,omitempty"`
	}{Models: []officialModel{}}
	for _, m := range all[start:end] {
		page.Models = append(page.Models, official(m))
	}
	if end < len(all) {
		page.Next = base64.RawURLEncoding.EncodeToString([]byte("from " + strconv.Itoa(end)))
	}
	writeJSON(x.w, http.StatusOK, page)
}

func readPageToken(token string, limit int) (int, bool) {
	if token == "" {
		return 0, true
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return 0, false
	}
	start, err := strconv.Atoi(strings.TrimPrefix(string(raw), "from "))
	return start, err == nil && start >= 0 && start < limit
}

func (x *exchange) getModel(name string) {
	if x.strikeSmall(stageModel) {
		return
	}
	m, ok := x.server.catalogue.find(name)
	if !ok {
		x.writeError(noOfficialModel(name, "generateContent"))
		return
	}
	writeJSON(x.w, http.StatusOK, official(m))
}

func noOfficialModel(name, method string) *statusError {
	return refuse(http.StatusNotFound, "NOT_FOUND", "model.unknown",
		"models/%s is not found for API version v1beta, or is not supported for %s. Call ListModels to see the list of available models and their supported methods.", name, method)
}

// officialMethod checks in the order of the private gateway, without the checks that only the
// gateway has.
func (x *exchange) officialMethod(name, method string) {
	embeds := method == "embedContent" || method == "batchEmbedContents"
	if !embeds && method != "generateContent" && method != "streamGenerateContent" && method != "countTokens" {
		writeNotFoundPage(x.w)
		return
	}
	if !x.parsable() || x.strike(stageModel, stageModel) {
		return
	}
	model, found := x.server.catalogue.find(name)
	if !found || method != "countTokens" && embeds != (model.Family == rules.Embedding) {
		x.writeError(noOfficialModel(name, method))
		return
	}
	if embeds {
		x.embed(model, method == "batchEmbedContents")
		return
	}
	input := rules.Input{Surface: rules.V1Beta, Method: rules.Generate, Model: model, Body: x.body,
		Switches: x.server.switches, Verify: x.server.signer.verify}
	if method == "countTokens" {
		input.Method = rules.Count
	}
	parsed, refusal := rules.Check(input)
	if refusal != nil {
		x.writeError(fromRefusal(refusal))
		return
	}
	if x.strike(stageCapacity, stageCapacity) || x.strike(stageQuota, stageQuota) {
		return
	}
	if method == "countTokens" {
		n := promptTokens(parsed)
		writeJSON(x.w, http.StatusOK, map[string]any{"totalTokens": n,
			"promptTokensDetails": []any{map[string]any{"modality": "TEXT", "tokenCount": n}}})
		return
	}
	if refused := x.people.spendKey(x.key, model.ID, x.server.now()); refused != nil {
		x.writeError(refused)
		return
	}
	x.answer(rules.V1Beta, model, parsed, method == "streamGenerateContent", false)
}

package simulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"perigee/internal/simulator/rules"
)

// envelope is the outer object of a content request on the private gateway.
type envelope struct {
	Project     string
	Model       string
	UserAgent   string
	RequestType string
	Credits     bool // the request may be paid with credits
}

// readEnvelope takes either spelling of each field.
func readEnvelope(body []byte) (envelope, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return envelope{}, err
	}
	e := envelope{Project: text(fields, "project"), Model: text(fields, "model"),
		UserAgent: text(fields, "userAgent"), RequestType: text(fields, "requestType")}
	for name, raw := range fields {
		var types []string
		if camel(name) == "enabledCreditTypes" && json.Unmarshal(raw, &types) == nil {
			e.Credits = slices.Contains(types, creditType)
		}
	}
	return e, nil
}

// cliStyle reports whether a request is for the pool of the command-line tool: such requests have
// neither user agent nor request type.
func (e envelope) cliStyle() bool { return e.UserAgent == "" && e.RequestType == "" }

// generateInternal serves both content methods of the private gateway. The order of the checks is
// part of the simulation: a request with two faults must be refused for the first.
func (x *exchange) generateInternal(stream bool) {
	if !x.parsable() || !x.admitted() {
		return
	}
	input := rules.Input{Surface: rules.V1Internal, Method: rules.Generate, Body: x.body,
		Switches: x.server.switches, Verify: x.server.signer.verify}
	if refused := rules.CheckEnvelope(input); refused != nil {
		x.writeError(fromRefusal(refused))
		return
	}
	outer, err := readEnvelope(x.body)
	if err != nil {
		x.writeError(fromRefusal(rules.RefuseJSON(err)))
		return
	}
	if refused := x.checkProject(outer); refused != nil {
		x.writeError(refused)
		return
	}
	model, outdated, refused := x.checkModel(outer)
	if refused != nil {
		x.writeError(refused)
		return
	}
	if x.strike(stageModel, stageModel) {
		return
	}
	input.Model = model
	parsed, refusal := rules.Check(input)
	if refusal != nil {
		x.writeError(fromRefusal(refusal))
		return
	}
	if x.strike(stageCapacity, stageCapacity) || x.strike(stageQuota, stageQuota) {
		return
	}
	group := quotaGroup(model.ID, outer.cliStyle())
	if refused := x.people.spend(x.account, group, model.ID, outer.Credits, x.server.now()); refused != nil {
		x.writeError(refused)
		return
	}
	x.search = outer.RequestType == "web_search"
	x.answer(rules.V1Internal, model, parsed, stream, outdated)
}

// admitted runs the checks of sign-in, account state and headers.
func (x *exchange) admitted() bool {
	if !x.authenticate() {
		return false
	}
	if x.strikeAuth() {
		return false
	}
	switch project := x.r.Header.Get("x-goog-user-project"); {
	case x.account.Banned:
		x.writeError(banned())
		return false
	case x.account.NeedsValidation:
		x.writeError(validationRequired())
		return false
	case project != "" && x.server.switches.GoogleUserProjectHeader == "403" && !x.people.ownsProject(x.account, project):
		x.writeError(serviceDisabled(project))
		return false
	}
	return true
}

func (x *exchange) checkProject(outer envelope) *statusError {
	d := x.people
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case outer.Project == "":
		return invalid("project.empty", "Invalid project resource name projects/")
	case x.account.hasProject(outer.Project):
		return nil
	case outer.cliStyle():
		return generateChatDenied(outer.Project)
	case slices.ContainsFunc(d.accounts, func(a *account) bool { return a.hasProject(outer.Project) }):
		return forbidden("project.foreign")
	}
	return notFound("project.unknown")
}

// checkModel returns the model and checks the client's version against it. outdated means that the
// answer is the sentence that the version is no longer supported (a switch).
func (x *exchange) checkModel(outer envelope) (model rules.Model, outdated bool, refused *statusError) {
	c := x.server.catalogue
	model, found := c.find(outer.Model)
	if !outer.cliStyle() {
		version := clientVersion(x.r.UserAgent())
		if olderThan(version, c.minVersion) || found && olderThan(version, c.floor(model.ID)) {
			if x.server.switches.MinVersionError != "message" {
				return model, false, notFound("client.version")
			}
			outdated = true
		}
	} else if strings.Contains(x.r.Host, ".sandbox.") {
		return model, false, notFound("host.cli_style") // the sandboxes do not support this style
	}
	if !found || model.Family == rules.Embedding || !c.has(x.account, model.ID) {
		return model, false, notFound("model.unknown")
	}
	return model, outdated, nil
}

// countInternal counts tokens. Its body holds a request only: neither project nor model.
func (x *exchange) countInternal() {
	if !x.parsable() || !x.admitted() {
		return
	}
	input := rules.Input{Surface: rules.V1Internal, Method: rules.Count, Body: x.body,
		Switches: x.server.switches, Verify: x.server.signer.verify}
	refusal := rules.CheckEnvelope(input)
	var parsed *rules.Parsed
	if refusal == nil {
		parsed, refusal = rules.Check(input)
	}
	if refusal != nil {
		x.writeError(fromRefusal(refusal))
		return
	}
	if x.strikeSmall(stageModel) {
		return
	}
	writeJSON(x.w, http.StatusOK, map[string]any{"totalTokens": promptTokens(parsed)})
}

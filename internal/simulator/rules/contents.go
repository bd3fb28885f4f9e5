package rules

import (
	"fmt"
	"strings"
)

// contentRules check the form of the conversation, for all models.
func contentRules() []Rule {
	call := `{"functionCall":{"name":"f","args":{}},"thoughtSignature":"` + GeminiSignature + `"}`
	badCall := strings.Replace(call, `"f"`, `"1f/x"`, 1)
	result := `{"functionResponse":{"name":"f","response":{}}}`
	return []Rule{
		{Name: "contents.missing", Section: "1.8", Step: 10, check: checkContents,
			Pass: internal(`{` + hi + `}`),
			Fail: internal(`{"contents":[]}`),
			Text: "* GenerateContentRequest.contents: contents is not specified"},
		{Name: "contents.role", Section: "1.8", Step: 10, check: checkRoles,
			Pass: internal(`{` + turnsJSON(`user [{"text":"a"}]`, `user [{"text":"b"}]`, `model [{"text":"c"}]`, `user [{"text":"d"}]`) + `}`),
			Fail: internal(`{` + turnsJSON(`system [{"text":"a"}]`, `user [{"text":"b"}]`) + `}`),
			Text: "Please use a valid role: user, model."},
		{Name: "contents.empty_parts", Section: "1.8", Step: 10, check: checkParts,
			Pass: internal(`{` + hi + `}`),
			Fail: internal(`{` + turnsJSON(`user [{"text":"a"}]`, `model []`, `user [{"text":"b"}]`) + `}`),
			Text: "* GenerateContentRequest.contents[1].parts: contents.parts must not be empty."},
		{Name: "contents.part_data", Section: "1.8", Step: 10, check: checkPartData,
			Pass: internal(`{` + turnsJSON(`user [{"text":""}]`) + `}`),
			Fail: internal(`{` + turnsJSON(`user [{"text":"a"},{"thought":true}]`) + `}`),
			Text: "* GenerateContentRequest.contents[0].parts[1].data: required oneof field 'data' must have one initialized field"},
		{Name: "contents.call_name", Section: "4.5", Step: 10, check: checkCallNames,
			Pass: internal(`{` + turnsJSON(`user [{"text":"a"}]`, `model [`+call+`]`, `user [`+result+`]`) + `}`),
			Fail: internal(`{` + turnsJSON(`user [{"text":"a"}]`, `model [`+badCall+`]`, `user [`+result+`]`) + `}`),
			Text: "* GenerateContentRequest.contents[1].parts[0].function_call.name: " + nameRule},
		{Name: "contents.call_role", Section: "5.2", Step: 10, check: checkCallRole,
			Pass: internal(`{` + turnsJSON(`user [{"text":"a"}]`, `model [`+call+`]`, `user [`+result+`]`) + `}`),
			Fail: internal(`{` + turnsJSON(`user [`+call+`]`) + `}`),
			Text: "Please ensure that function call turn comes immediately after a user turn or after a function response turn."},
		{Name: "contents.response_role", Section: "5.2", Step: 10, check: checkResponseRole,
			Pass: internal(`{` + turnsJSON(`user [{"text":"a"}]`, `model [`+call+`]`, `model [`+result+`]`) + `}`),
			Fail: internal(`{` + turnsJSON(`user [{"text":"a"}]`, `model [`+call+`]`, `model [`+result+`]`) + `}`).with(func(s *Switches) { s.FunctionResponseRole = "user" }),
			Text: "Please ensure that function response parts are in a turn with the role user."},
		{Name: "contents.file_uri", Section: "13.2", Step: 10, check: checkFileURI,
			Pass: onVertex(`{` + turnsJSON(`user [{"fileData":{"mimeType":"image/png","fileUri":"gs://bucket/a.png"}}]`) + `}`),
			Fail: onVertex(`{` + turnsJSON(`user [{"fileData":{"mimeType":"image/png","fileUri":"`+filesAPI+`v1beta/files/a"}}]`) + `}`),
			Text: "Cannot fetch content from the provided URL. Please ensure the URL is valid and accessible by Vertex AI. URL: " + filesAPI + "v1beta/files/a"},
		{Name: "contents.cached", Section: "13.2", Step: 10, check: checkCachedContent,
			Pass: onVertex(`{` + hi + `,"cachedContent":"projects/p/locations/global/cachedContents/1"}`),
			Fail: onVertex(`{` + hi + `,"cachedContent":"cachedContents/1"}`),
			Text: "Invalid resource field value in the request: cached_content must be of the form projects/{project}/locations/{location}/cachedContents/{cached_content}."},
		{Name: "contents.media", Section: "3.1", Step: 10, check: checkMedia,
			Pass: internal(`{` + turnsJSON(`user [{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]`) + `}`),
			Fail: onModel("gpt-oss-120b-medium", `{`+turnsJSON(`user [{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]`)+`}`),
			Text: "Image input is not supported by the model gpt-oss-120b-medium."},
	}
}

// fieldErrors collects complaints in the provider's list form.
type fieldErrors struct{ lines []string }

func (f *fieldErrors) add(why, path string, args ...any) {
	if len(f.lines) < maxViolations {
		f.lines = append(f.lines, "* GenerateContentRequest."+fmt.Sprintf(path, args...)+": "+why)
	}
}

func (f *fieldErrors) refusal() *Refusal {
	if len(f.lines) == 0 {
		return nil
	}
	return refuse(strings.Join(f.lines, "\n"))
}

func checkContents(r *request) *Refusal {
	var errs fieldErrors
	if len(r.parsed.Contents) == 0 {
		errs.add("contents is not specified", "contents")
	}
	return errs.refusal()
}

// checkRoles wants a role on the private gateway and at Vertex AI; the official API reads an absent
// one as the user's.
func checkRoles(r *request) *Refusal {
	for i, n := range r.root.list("contents") {
		role := r.parsed.Contents[i].Role
		absent := n.text("role") == "" && r.in.Surface != V1Beta
		if absent || role != "user" && role != "model" {
			return refuse("Please use a valid role: user, model.")
		}
	}
	return nil
}

// filesAPI is the address of files that the official API has and Vertex AI has not.
const filesAPI = "https://generativelanguage.googleapis.com/"

func checkFileURI(r *request) *Refusal {
	if r.in.Surface != Vertex {
		return nil
	}
	for _, c := range r.parsed.Contents {
		for _, p := range c.Parts {
			if p.File != nil && strings.HasPrefix(p.File.URI, filesAPI) {
				return refuse("Cannot fetch content from the provided URL. Please ensure the URL is valid and accessible by Vertex AI. URL: " + p.File.URI)
			}
		}
	}
	return nil
}

func checkCachedContent(r *request) *Refusal {
	name := strings.Split(r.parsed.CachedContent, "/")
	full := len(name) == 6 && name[0] == "projects" && name[2] == "locations" && name[4] == "cachedContents"
	if r.in.Surface != Vertex || r.parsed.CachedContent == "" || full {
		return nil
	}
	return refuse("Invalid resource field value in the request: cached_content must be of the form projects/{project}/locations/{location}/cachedContents/{cached_content}.")
}

func checkParts(r *request) *Refusal {
	var errs fieldErrors
	for i, c := range r.parsed.Contents {
		if len(c.Parts) == 0 {
			errs.add("contents.parts must not be empty.", "contents[%d].parts", i)
		}
	}
	return errs.refusal()
}

func checkPartData(r *request) *Refusal {
	var errs fieldErrors
	for i, c := range r.parsed.Contents {
		for j, p := range c.Parts {
			if !p.HasText && p.Blob == nil && p.File == nil && p.Call == nil && p.Response == nil && p.Other == "" {
				errs.add("required oneof field 'data' must have one initialized field", "contents[%d].parts[%d].data", i, j)
			}
		}
	}
	return errs.refusal()
}

func checkCallNames(r *request) *Refusal {
	var errs fieldErrors
	check := func(name, field string, i, j int) {
		if name == "" {
			errs.add("Name cannot be empty.", "contents[%d].parts[%d].%s.name", i, j, field)
		} else if !validName(name) {
			errs.add(nameRule, "contents[%d].parts[%d].%s.name", i, j, field)
		}
	}
	for i, c := range r.parsed.Contents {
		for j, p := range c.Parts {
			if p.Call != nil {
				check(p.Call.Name, "function_call", i, j)
			}
			if p.Response != nil {
				check(p.Response.Name, "function_response", i, j)
			}
		}
	}
	return errs.refusal()
}

func checkCallRole(r *request) *Refusal {
	if r.in.Method == Count {
		return nil
	}
	for i, c := range r.parsed.Contents {
		if c.Role == "model" || len(calls(c)) == 0 {
			continue
		}
		if r.in.Model.Family == Claude {
			return refuse(fmt.Sprintf("messages.%d: `tool_use` blocks can only be in `assistant` messages", i))
		}
		return refuse("Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
	}
	return nil
}

// checkResponseRole lets a content of nothing but results have the model's role where the switch
// allows it, as the language server of the product sends them. Beside anything else, Claude's
// results are the user's.
func checkResponseRole(r *request) *Refusal {
	want := r.in.Switches.FunctionResponseRole
	for _, c := range r.parsed.Contents {
		if len(responses(c)) == 0 {
			continue
		}
		switch {
		case c.Role == "model" && (want == "user" || r.in.Model.Family == Claude && len(responses(c)) < len(c.Parts)):
			return refuse("Please ensure that function response parts are in a turn with the role user.")
		case c.Role == "user" && want == "model" && r.in.Model.Family != Claude && len(responses(c)) == len(c.Parts):
			return refuse("Please ensure that function response parts are in a turn with the role model.")
		}
	}
	return nil
}

func checkMedia(r *request) *Refusal {
	if r.in.Model.ID == "" {
		return nil // the gateway counts tokens without a model
	}
	if r.in.Model.Images {
		return nil
	}
	for _, c := range r.parsed.Contents {
		for _, p := range c.Parts {
			if p.Blob != nil || p.File != nil {
				return refuse("Image input is not supported by the model " + r.in.Model.ID + ".")
			}
		}
	}
	return nil
}

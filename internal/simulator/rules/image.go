package rules

import (
	"fmt"
	"slices"
	"strings"
)

// imageRules check requests to models that generate images.
func imageRules() []Rule {
	drawing := func(rest string) Example { return onModel("gemini-3.1-flash-image", `{`+hi+`,`+rest+`}`) }
	return []Rule{
		{Name: "image.tools", Section: "5.4", Step: 12, check: checkImageTools,
			Pass: drawing(`"tools":[]`),
			Fail: drawing(`"tools":[{"functionDeclarations":[{"name":"f"}]}]`),
			Text: "Function calling is not enabled for models/gemini-3.1-flash-image"},
		{Name: "image.system", Section: "5.4", Step: 12, check: checkImageSystem,
			Pass: drawing(`"generationConfig":{}`),
			Fail: drawing(`"systemInstruction":{"parts":[{"text":"draw"}]}`),
			Text: "Developer instruction is not enabled for models/gemini-3.1-flash-image"},
		{Name: "image.json", Section: "5.4", Step: 12, check: checkImageJSON,
			Pass: drawing(`"generationConfig":{"responseModalities":["IMAGE"]}`),
			Fail: drawing(`"generationConfig":{"responseMimeType":"application/json"}`),
			Text: "JSON mode is not enabled for models/gemini-3.1-flash-image"},
		{Name: "image.candidates", Section: "5.4", Step: 12, check: checkImageCandidates,
			Pass: drawing(`"generationConfig":{"candidateCount":1}`),
			Fail: drawing(`"generationConfig":{"candidateCount":2}`),
			Text: "Multiple candidates is not enabled for models/gemini-3.1-flash-image"},
		{Name: "image.aspect_ratio", Section: "5.4", Step: 12, check: checkAspectRatio,
			Pass: drawing(`"generationConfig":{"imageConfig":{"aspectRatio":"16:9"}}`),
			Fail: drawing(`"generationConfig":{"imageConfig":{"aspectRatio":"7:3"}}`),
			Text: "* GenerateContentRequest.generation_config.image_config.aspect_ratio: aspect_ratio must be one of '1:1', '2:3', '3:2', '3:4', '4:3', '4:5', '5:4', '9:16', '16:9', '21:9'"},
		{Name: "image.size", Section: "5.4", Step: 12, check: checkImageSize,
			Pass: drawing(`"generationConfig":{"imageConfig":{"imageSize":"4K"}}`),
			Fail: drawing(`"generationConfig":{"imageConfig":{"imageSize":"4k"}}`),
			Text: "* GenerateContentRequest.generation_config.image_config.image_size: image_size must be one of '1K', '2K', '4K'"},
	}
}

func (r *request) drawing() bool { return r.in.Model.Family == Image && r.generating() }

func (r *request) notEnabled(what string) *Refusal {
	return refuse(what + " is not enabled for models/" + r.in.Model.ID)
}

func checkImageTools(r *request) *Refusal {
	if r.drawing() && len(r.parsed.Functions)+len(r.parsed.BuiltIns) > 0 {
		return r.notEnabled("Function calling")
	}
	return nil
}

func checkImageSystem(r *request) *Refusal {
	if r.drawing() && r.root.get("systemInstruction") != nil {
		return r.notEnabled("Developer instruction")
	}
	return nil
}

func checkImageJSON(r *request) *Refusal {
	if r.drawing() && r.parsed.Config.ResponseMIME == "application/json" {
		return r.notEnabled("JSON mode")
	}
	return nil
}

func checkImageCandidates(r *request) *Refusal {
	if r.drawing() && r.parsed.Config.CandidateCount > 1 {
		return r.notEnabled("Multiple candidates")
	}
	return nil
}

func checkAspectRatio(r *request) *Refusal {
	return r.oneOf("aspect_ratio", r.parsed.Config.AspectRatio, "1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9")
}

func checkImageSize(r *request) *Refusal {
	return r.oneOf("image_size", r.parsed.Config.ImageSize, "1K", "2K", "4K")
}

// oneOf refuses a member of imageConfig that is given and not in the list.
func (r *request) oneOf(field, value string, legal ...string) *Refusal {
	if value == "" || !r.drawing() || slices.Contains(legal, value) {
		return nil
	}
	var errs fieldErrors
	errs.add(fmt.Sprintf("%s must be one of '%s'", field, strings.Join(legal, "', '")), "generation_config.image_config.%s", field)
	return errs.refusal()
}

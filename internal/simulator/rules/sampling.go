package rules

import "strconv"

// sample spells a request with a generation config, for examples.
func sample(config string) string { return `{` + hi + `,"generationConfig":{` + config + `}}` }

// maxStops is how many stop sequences the official API documents.
const maxStops = 5

// samplingRules check the sampling parameters. The official API documents the ranges and refuses
// values outside of them; the text of its errors is not known.
func samplingRules() []Rule {
	return []Rule{
		{Name: "config.temperature", Section: "3.7", Step: 12, check: checkTemperature,
			Pass: beta(sample(`"temperature":2`)),
			Fail: beta(sample(`"temperature":2.1`)),
			Text: "* GenerateContentRequest.generation_config.temperature: temperature must be in the range [0.0, 2.0]"},
		{Name: "config.top_p", Section: "3.7", Step: 12, check: checkTopP,
			Pass: beta(sample(`"topP":1`)),
			Fail: beta(sample(`"topP":-0.1`)),
			Text: "* GenerateContentRequest.generation_config.top_p: top_p must be in the range [0.0, 1.0]"},
		{Name: "config.top_k", Section: "3.7", Step: 12, check: checkTopK,
			Pass: beta(sample(`"topK":1`)),
			Fail: beta(sample(`"topK":0`)),
			Text: "* GenerateContentRequest.generation_config.top_k: top_k must be positive"},
		{Name: "config.stop_sequences", Section: "3.7", Step: 12, check: checkStops,
			Pass: beta(sample(`"stopSequences":["a","b","c","d","e"]`)),
			Fail: beta(sample(`"stopSequences":["a","b","c","d","e","f"]`)),
			Text: "* GenerateContentRequest.generation_config.stop_sequences: at most 5 stop sequences are allowed, got 6"},
	}
}

// sampling reports whether these ranges apply to the request. The behaviour of the private gateway
// is not known.
func (r *request) sampling() bool {
	return r.generating() && (r.in.official() || r.in.Switches.SamplingRanges)
}

func (r *request) refuseSampling(field, why string) *Refusal {
	var errs fieldErrors
	errs.add(why, "generation_config.%s", field)
	return errs.refusal()
}

func checkTemperature(r *request) *Refusal {
	if t := r.parsed.Config.Temperature; t != nil && r.sampling() && !(*t >= 0 && *t <= 2) {
		return r.refuseSampling("temperature", "temperature must be in the range [0.0, 2.0]")
	}
	return nil
}

func checkTopP(r *request) *Refusal {
	if p := r.parsed.Config.TopP; p != nil && r.sampling() && !(*p >= 0 && *p <= 1) {
		return r.refuseSampling("top_p", "top_p must be in the range [0.0, 1.0]")
	}
	return nil
}

func checkTopK(r *request) *Refusal {
	if k := r.parsed.Config.TopK; k != nil && r.sampling() && !(*k >= 1) {
		return r.refuseSampling("top_k", "top_k must be positive")
	}
	return nil
}

func checkStops(r *request) *Refusal {
	if n := len(r.parsed.Config.Stop); r.sampling() && n > maxStops {
		return r.refuseSampling("stop_sequences", "at most "+strconv.Itoa(maxStops)+" stop sequences are allowed, got "+strconv.Itoa(n))
	}
	return nil
}

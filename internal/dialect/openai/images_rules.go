package openai

import "perigee"

// ImagesRules says what becomes of each field of a request for pictures.
func ImagesRules() []perigee.FieldRule {
	with := func(more string) string { return `{"model":"gemini-3.1-flash-image","prompt":"a cat"` + more + `}` }
	return []perigee.FieldRule{
		{Field: "model", Handling: perigee.HandlingCarried, Becomes: "the model", Example: with(``)},
		{Field: "prompt", Handling: perigee.HandlingCarried, Becomes: "contents", Example: with(``)},
		{Field: "n", Handling: perigee.HandlingCarried, Becomes: "so many calls, one after the other", Example: with(`,"n":2`)},
		{Field: "size, of a shape that the models draw", Handling: perigee.HandlingCarried, Becomes: "imageConfig", Example: with(`,"size":"1024x1024"`)},
		{Field: "size", Handling: perigee.HandlingMapped, Becomes: "the nearest shape", Example: with(`,"size":"1000x100"`)},
		{Field: "response_format b64_json", Handling: perigee.HandlingCarried, Becomes: "b64_json", Example: with(`,"response_format":"b64_json"`)},
		{Field: "response_format url", Handling: perigee.HandlingCarried, Becomes: "a link to /v1/images/{id}, where the picture is kept for a few days; a key is needed there, too", Example: with(`,"response_format":"url"`)},
		{Field: "stream", Handling: perigee.HandlingRefused, Becomes: "pictures come whole", Example: with(`,"stream":true`)},
		{Field: "quality", Handling: perigee.HandlingDropped, Becomes: "the models have one", Example: with(`,"quality":"high"`)},
		{Field: "background", Handling: perigee.HandlingDropped, Becomes: "ask for it in the prompt", Example: with(`,"background":"transparent"`)},
		{Field: "moderation", Handling: perigee.HandlingDropped, Becomes: "the provider decides", Example: with(`,"moderation":"low"`)},
		{Field: "style", Handling: perigee.HandlingDropped, Becomes: "ask for it in the prompt", Example: with(`,"style":"vivid"`)},
		{Field: "output_format", Handling: perigee.HandlingDropped, Becomes: "the provider decides", Example: with(`,"output_format":"webp"`)},
		{Field: "output_compression", Handling: perigee.HandlingDropped, Becomes: "the provider decides", Example: with(`,"output_compression":50`)},
		{Field: "partial_images", Handling: perigee.HandlingDropped, Becomes: "pictures come whole", Example: with(`,"partial_images":2`)},
		{Field: "user", Handling: perigee.HandlingAccepted, Becomes: "for the vendor's records", Example: with(`,"user":"bob"`)},
	}
}

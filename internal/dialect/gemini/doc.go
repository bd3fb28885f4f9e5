// Package gemini implements the Gemini v1beta dialect: it decodes and encodes requests and answers.
// The HTTP server uses it for clients, and upstreams use it for providers with a Gemini API. It
// does not use the network, the clock or mutable globals.
//
// Reading follows proto-JSON, as the provider does: lowerCamel and snake_case spellings are the
// same field, null is absent. Members without a field in package perigee are kept as Fields.
package gemini

import "strings"

// camel returns the lowerCamel spelling of a proto-JSON field name. Names in spellings cost no
// allocation.
func camel(key []byte) string {
	if name, ok := spellings[string(key)]; ok {
		return name
	}
	return lowerCamel(string(key))
}

// spellings has both spellings of the fields that this package reads.
var spellings = func() map[string]string {
	table := map[string]string{}
	for name := range strings.FieldsSeq(`
		contents role parts text thought thought_signature inline_data mime_type data file_data file_uri
		function_call function_response id name args response
		system_instruction tools function_declarations description parameters parametersJsonSchema
		tool_config function_calling_config mode allowed_function_names
		generation_config temperature top_p top_k max_output_tokens candidate_count seed presence_penalty
		frequency_penalty stop_sequences response_mime_type response_schema responseJsonSchema response_modalities
		thinking_config include_thoughts thinking_budget thinking_level
		safety_settings cached_content generate_content_request model requests content
		candidates index finish_reason finish_message grounding_metadata logprobs_result
		usage_metadata prompt_token_count candidates_token_count thoughts_token_count tool_use_prompt_token_count
		total_token_count cached_content_token_count model_version response_id prompt_feedback block_reason
		web_search_queries grounding_chunks grounding_supports segment start_index end_index grounding_chunk_indices
		chosen_candidates top_candidates token log_probability
		avg_logprobs safety_ratings citation_metadata prompt_tokens_details traffic_type create_time`) {
		camel := lowerCamel(name)
		table[name], table[camel] = camel, camel
	}
	return table
}()

func lowerCamel(s string) string {
	i := strings.IndexByte(s, '_')
	if i <= 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	b = append(b, s[:i]...)
	up := false
	for _, c := range []byte(s[i:]) {
		switch {
		case c == '_':
			up = true
		case up && 'a' <= c && c <= 'z':
			b = append(b, c-'a'+'A')
			up = false
		default:
			b = append(b, c)
			up = false
		}
	}
	return string(b)
}

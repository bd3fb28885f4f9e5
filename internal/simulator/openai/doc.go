// Package openai has the rules and the answers of OpenAI's Chat Completions and Responses APIs, and
// of the servers that copy them.
//
// It is pure but for the [Store] of responses: no network, no clock, no accounts. Package simulator
// is the only caller. It runs [CheckChat] or [CheckResponse], lets its model answer the parsed
// conversation, and encodes the answer with the methods of [Chat] and [Response].
//
// Each server is a [Profile]: a row of a table with its models, its form of reasoning, tool calls,
// usage and errors, and the members that it refuses.
package openai

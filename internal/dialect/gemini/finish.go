package gemini

import "perigee"

// FinishOf returns the Finish for a finish reason of the provider. If its kind is FinishMalformed,
// Trouble describes the error.
func FinishOf(reason string) perigee.Finish {
	finish := finishes[reason]
	finish.Reason, finish.Dialect = reason, perigee.DialectGemini
	return finish
}

// reasonOf returns the finish reason for an answer of any provider.
func reasonOf(f *perigee.Finish) string { return f.Word(perigee.DialectGemini, reasons) }

// reasons are the finish reasons for answers of other providers.
var reasons = map[perigee.FinishKind]string{
	perigee.FinishDone: "STOP", perigee.FinishLength: "MAX_TOKENS", perigee.FinishFiltered: "SAFETY",
	perigee.FinishMalformed: "MALFORMED_RESPONSE", perigee.FinishUnexplained: "OTHER",
}

// finishes are the provider's finish reasons and block reasons of prompts. Any other reason is an
// ordinary end.
var finishes = map[string]perigee.Finish{
	"MAX_TOKENS": {Kind: perigee.FinishLength},

	"SAFETY":                   {Kind: perigee.FinishFiltered},
	"RECITATION":               {Kind: perigee.FinishFiltered},
	"LANGUAGE":                 {Kind: perigee.FinishFiltered},
	"BLOCKLIST":                {Kind: perigee.FinishFiltered},
	"PROHIBITED_CONTENT":       {Kind: perigee.FinishFiltered},
	"SPII":                     {Kind: perigee.FinishFiltered},
	"IMAGE_SAFETY":             {Kind: perigee.FinishFiltered},
	"IMAGE_PROHIBITED_CONTENT": {Kind: perigee.FinishFiltered},
	"IMAGE_RECITATION":         {Kind: perigee.FinishFiltered},
	"MODEL_ARMOR":              {Kind: perigee.FinishFiltered},
	"JAILBREAK":                {Kind: perigee.FinishFiltered},

	"MALFORMED_FUNCTION_CALL":   {Kind: perigee.FinishMalformed, Error: "the model wrote a tool call that cannot be read"},
	"UNEXPECTED_TOOL_CALL":      {Kind: perigee.FinishMalformed, Error: "the model called a tool that it was not given"},
	"TOO_MANY_TOOL_CALLS":       {Kind: perigee.FinishMalformed, Error: "the model called too many tools in a row"},
	"MISSING_THOUGHT_SIGNATURE": {Kind: perigee.FinishMalformed, Error: "the provider misses the signature of a tool call"},
	"MALFORMED_RESPONSE":        {Kind: perigee.FinishMalformed, Error: "the model wrote an answer that cannot be read"},

	"OTHER": {Kind: perigee.FinishUnexplained},
}

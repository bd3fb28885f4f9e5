package rules

import (
	"maps"
	"strings"
	"sync"
	"unicode"
)

// messages describes the official request as data: message, field in camelCase, type. Types are
// scalar names, "struct" (any object), "value" (any JSON), "enum X", the name of a message, "[]T"
// and "map T".
//
// It is read-only; differences of other surfaces are in overlays.
var messages = map[string]map[string]string{
	"Envelope": {"project": "string", "model": "string", "request": "struct", "userAgent": "string", "requestType": "string",
		"requestId": "string", "enabledCreditTypes": "[]string"},
	"CountEnvelope": {"request": "struct"},
	"CountTokensRequest": {"model": "string", "contents": "[]Content",
		"generateContentRequest": "GenerateContentRequest"},
	"GenerateContentRequest": {"model": "string", "contents": "[]Content", "systemInstruction": "Content", "tools": "[]Tool",
		"toolConfig": "ToolConfig", "safetySettings": "[]SafetySetting", "generationConfig": "GenerationConfig",
		"cachedContent": "string", "labels": "map string", "store": "bool", "serviceTier": "enum ServiceTier"},

	"Content": {"role": "string", "parts": "[]Part"},
	"Part": {"text": "string", "inlineData": "Blob", "fileData": "FileData", "functionCall": "FunctionCall",
		"functionResponse": "FunctionResponse", "executableCode": "ExecutableCode", "codeExecutionResult": "CodeExecutionResult",
		"toolCall": "ToolCall", "toolResponse": "ToolResponse", "thought": "bool", "thoughtSignature": "bytes",
		"videoMetadata": "VideoMetadata", "partMetadata": "struct", "mediaResolution": "PartMediaResolution"},
	"Blob":                 {"mimeType": "string", "data": "bytes", "displayName": "string"},
	"FileData":             {"mimeType": "string", "fileUri": "string", "displayName": "string"},
	"FunctionCall":         {"id": "string", "name": "string", "args": "struct"},
	"FunctionResponse":     {"id": "string", "name": "string", "response": "struct", "parts": "[]FunctionResponsePart", "willContinue": "bool", "scheduling": "enum Scheduling"},
	"FunctionResponsePart": {"inlineData": "Blob", "fileData": "FileData"},
	"ExecutableCode":       {"id": "string", "language": "enum Language", "code": "string"},
	"CodeExecutionResult":  {"id": "string", "outcome": "enum Outcome", "output": "string"},
	"ToolCall":             {"id": "string", "toolType": "string", "args": "struct"},
	"ToolResponse":         {"id": "string", "toolType": "string", "response": "struct"},
	"VideoMetadata":        {"startOffset": "string", "endOffset": "string", "fps": "double"},
	"PartMediaResolution":  {"level": "enum MediaResolution", "numTokens": "int32"},

	"Tool": {"functionDeclarations": "[]FunctionDeclaration", "googleSearch": "GoogleSearch",
		"googleSearchRetrieval": "GoogleSearchRetrieval", "codeExecution": "Empty", "urlContext": "Empty",
		"computerUse": "ComputerUse", "fileSearch": "FileSearch", "googleMaps": "GoogleMaps", "mcpServers": "[]McpServer"},
	"FunctionDeclaration": {"name": "string", "description": "string", "behavior": "enum Behavior", "parameters": "Schema",
		"parametersJsonSchema": "value", "response": "Schema", "responseJsonSchema": "value"},
	"GoogleSearch":           {"timeRangeFilter": "Interval", "searchTypes": "struct", "excludeDomains": "[]string"},
	"Interval":               {"startTime": "string", "endTime": "string"},
	"GoogleSearchRetrieval":  {"dynamicRetrievalConfig": "DynamicRetrievalConfig"},
	"DynamicRetrievalConfig": {"mode": "enum DynamicMode", "dynamicThreshold": "float"},
	"ComputerUse":            {"environment": "enum Environment", "excludedPredefinedFunctions": "[]string"},
	"FileSearch":             {"fileSearchStoreNames": "[]string", "topK": "int32", "metadataFilter": "string"},
	"GoogleMaps":             {"enableWidget": "bool"},
	"McpServer":              {"name": "string", "streamableHttpTransport": "struct"},
	"Empty":                  {},

	"ToolConfig": {"functionCallingConfig": "FunctionCallingConfig", "retrievalConfig": "RetrievalConfig",
		"includeServerSideToolInvocations": "bool"},
	"FunctionCallingConfig": {"mode": "enum Mode", "allowedFunctionNames": "[]string", "streamFunctionCallArguments": "bool"},
	"RetrievalConfig":       {"latLng": "LatLng", "languageCode": "string"},
	"LatLng":                {"latitude": "double", "longitude": "double"},
	"SafetySetting":         {"category": "enum HarmCategory", "threshold": "enum HarmBlockThreshold", "method": "string"},

	"GenerationConfig": {"stopSequences": "[]string", "responseMimeType": "string", "responseSchema": "ResponseSchema",
		"responseJsonSchema": "value", "responseModalities": "[]enum Modality", "candidateCount": "int32",
		"maxOutputTokens": "int32", "temperature": "float", "topP": "float", "topK": "float", "seed": "int32",
		"presencePenalty": "float", "frequencyPenalty": "float", "responseLogprobs": "bool", "logprobs": "int32",
		"enableEnhancedCivicAnswers": "bool", "speechConfig": "SpeechConfig", "thinkingConfig": "ThinkingConfig",
		"imageConfig": "ImageConfig", "mediaResolution": "enum MediaResolution", "audioTimestamp": "bool",
		"routingConfig": "RoutingConfig"},
	"ThinkingConfig":          {"includeThoughts": "bool", "thinkingBudget": "int32", "thinkingLevel": "enum ThinkingLevel"},
	"ImageConfig":             {"aspectRatio": "string", "imageSize": "string"},
	"SpeechConfig":            {"voiceConfig": "VoiceConfig", "multiSpeakerVoiceConfig": "MultiSpeakerVoiceConfig", "languageCode": "string"},
	"VoiceConfig":             {"prebuiltVoiceConfig": "PrebuiltVoiceConfig"},
	"PrebuiltVoiceConfig":     {"voiceName": "string"},
	"MultiSpeakerVoiceConfig": {"speakerVoiceConfigs": "[]SpeakerVoiceConfig"},
	"SpeakerVoiceConfig":      {"speaker": "string", "voiceConfig": "VoiceConfig"},
	"RoutingConfig":           {"autoMode": "struct", "manualMode": "struct"},

	"Schema":         schemaFields("Schema"),
	"ResponseSchema": schemaFields("ResponseSchema"),
}

// schemaFields returns the documented schema message. Tools and answers have one each because only
// the schema of tools depends on the family.
func schemaFields(self string) map[string]string {
	return map[string]string{"type": "enum Type", "format": "string", "title": "string", "description": "string", "nullable": "bool",
		"enum": "[]string", "items": self, "minItems": "int64", "maxItems": "int64", "properties": "map " + self,
		"required": "[]string", "minProperties": "int64", "maxProperties": "int64", "minimum": "double", "maximum": "double",
		"minLength": "int64", "maxLength": "int64", "pattern": "string", "example": "value", "default": "value",
		"anyOf": "[]" + self, "propertyOrdering": "[]string"}
}

// enums are matched without regard to case, as the provider does; numbers are accepted for any of
// them.
var enums = map[string]string{
	"Type":               "TYPE_UNSPECIFIED STRING NUMBER INTEGER BOOLEAN ARRAY OBJECT NULL",
	"Mode":               "MODE_UNSPECIFIED AUTO ANY NONE VALIDATED",
	"DynamicMode":        "MODE_UNSPECIFIED MODE_DYNAMIC",
	"Modality":           "MODALITY_UNSPECIFIED TEXT IMAGE AUDIO",
	"ThinkingLevel":      "THINKING_LEVEL_UNSPECIFIED MINIMAL LOW MEDIUM HIGH",
	"MediaResolution":    "MEDIA_RESOLUTION_UNSPECIFIED MEDIA_RESOLUTION_LOW MEDIA_RESOLUTION_MEDIUM MEDIA_RESOLUTION_HIGH MEDIA_RESOLUTION_ULTRA_HIGH",
	"Behavior":           "UNSPECIFIED BLOCKING NON_BLOCKING",
	"Scheduling":         "SCHEDULING_UNSPECIFIED SILENT WHEN_IDLE INTERRUPT",
	"Language":           "LANGUAGE_UNSPECIFIED PYTHON",
	"Outcome":            "OUTCOME_UNSPECIFIED OUTCOME_OK OUTCOME_FAILED OUTCOME_DEADLINE_EXCEEDED",
	"Environment":        "ENVIRONMENT_UNSPECIFIED ENVIRONMENT_BROWSER",
	"ServiceTier":        "SERVICE_TIER_UNSPECIFIED UNSPECIFIED STANDARD FLEX PRIORITY",
	"HarmCategory":       "HARM_CATEGORY_UNSPECIFIED HARM_CATEGORY_HARASSMENT HARM_CATEGORY_HATE_SPEECH HARM_CATEGORY_SEXUALLY_EXPLICIT HARM_CATEGORY_DANGEROUS_CONTENT HARM_CATEGORY_CIVIC_INTEGRITY",
	"HarmBlockThreshold": "HARM_BLOCK_THRESHOLD_UNSPECIFIED BLOCK_LOW_AND_ABOVE BLOCK_MEDIUM_AND_ABOVE BLOCK_ONLY_HIGH BLOCK_NONE OFF",
}

// partData are the fields of Part of which exactly one must be set.
var partData = []string{"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode",
	"codeExecutionResult", "toolCall", "toolResponse"}

// An overlay changes messages for some requests: a type adds or replaces a field, "-" removes it.
type overlay struct {
	when    func(in Input) bool
	message string
	fields  map[string]string
}

var overlays = sync.OnceValue(func() []overlay {
	internal := func(in Input) bool { return in.Surface == V1Internal }
	vertex := func(in Input) bool { return in.Surface == Vertex }
	unions := func(mode string) func(Input) bool {
		return func(in Input) bool { return internal(in) && in.Switches.UnionsInSchema == mode }
	}
	claudeSchema := schemaFields("Schema")
	for name := range claudeSchema {
		claudeSchema[name] = "-"
	}
	for _, name := range []string{"type", "description", "properties", "required", "items", "enum", "nullable", "title", "minimum", "maximum"} {
		claudeSchema[name] = schemaFields("Schema")[name]
	}
	return []overlay{
		{internal, "GenerateContentRequest", map[string]string{"sessionId": "string", "model": "-", "store": "-", "serviceTier": "-"}},
		{internal, "Part", map[string]string{"toolCall": "-", "toolResponse": "-", "partMetadata": "-", "mediaResolution": "-"}},
		{func(in Input) bool { return in.Surface == V1Beta }, "FunctionResponsePart", map[string]string{"fileData": "-"}},
		{vertex, "GenerateContentRequest", map[string]string{"model": "-", "store": "-", "modelArmorConfig": "struct"}},
		{vertex, "CountTokensRequest", map[string]string{"generateContentRequest": "-", "systemInstruction": "Content", "tools": "[]Tool",
			"generationConfig": "GenerationConfig"}},
		{vertex, "Part", map[string]string{"toolCall": "-", "toolResponse": "-", "partMetadata": "-"}},
		{vertex, "FunctionCall", map[string]string{"partialArgs": "value", "willContinue": "bool"}},
		{vertex, "FunctionResponse", map[string]string{"willContinue": "-"}},
		{vertex, "Tool", map[string]string{"fileSearch": "-", "mcpServers": "-", "retrieval": "struct", "enterpriseWebSearch": "struct",
			"parallelAiSearch": "struct", "exaAiSearch": "struct"}},
		{vertex, "ToolConfig", map[string]string{"includeServerSideToolInvocations": "-"}},
		{vertex, "GenerationConfig", map[string]string{"enableEnhancedCivicAnswers": "-", "modelConfig": "struct"}},
		{internal, "FunctionDeclaration", map[string]string{"parametersJsonSchema": "-"}},
		{internal, "ToolConfig", map[string]string{"includeServerSideToolInvocations": "-"}},
		{internal, "GoogleSearch", map[string]string{"enhancedContent": "struct", "includedDomains": "[]string"}},
		{func(in Input) bool { return internal(in) && (in.Method == Count || !in.Switches.SafetySettingsOK) },
			"GenerateContentRequest", map[string]string{"safetySettings": "-"}},
		{func(in Input) bool { return internal(in) && in.Switches.RequestCacheControlOK },
			"GenerateContentRequest", map[string]string{"cacheControl": "struct"}},
		{func(in Input) bool { return internal(in) && in.Model.Family == Claude }, "Schema", claudeSchema},
		{unions("accept"), "Schema", map[string]string{"anyOf": "[]Schema", "oneOf": "[]Schema", "allOf": "[]Schema"}},
		{unions("ignore"), "Schema", map[string]string{"anyOf": "value", "oneOf": "value", "allOf": "value"}},
	}
})

// A field is a declared field, ready for the walker.
type field struct {
	name, snake    string
	kind           string // scalar name, "struct", "value", "enum" or "message"
	of             string // name of the message or enum
	repeated, keys bool   // list, map
	data           bool   // one of partData
}

// A vocabulary resolves messages for one request, each once.
type vocabulary struct {
	in       Input
	resolved map[string]map[string]*field
}

// fields returns the fields of a message by both of their spellings. The map is read-only.
func (v *vocabulary) fields(message string) map[string]*field {
	if fields, ok := v.resolved[message]; ok {
		return fields
	}
	fields, shared := declaredFields()[message], true
	for _, o := range overlays() {
		if o.message != message || !o.when(v.in) {
			continue
		}
		if shared {
			fields, shared = maps.Clone(fields), false
		}
		setFields(fields, message, o.fields)
	}
	if v.resolved == nil {
		v.resolved = map[string]map[string]*field{}
	}
	v.resolved[message] = fields
	return fields
}

// declaredFields returns the fields of every message without overlays.
var declaredFields = sync.OnceValue(func() map[string]map[string]*field {
	all := map[string]map[string]*field{}
	for message, kinds := range messages {
		all[message] = map[string]*field{}
		setFields(all[message], message, kinds)
	}
	return all
})

// setFields adds or replaces fields with the types of kinds, and removes those whose type is "-".
func setFields(fields map[string]*field, message string, kinds map[string]string) {
	for name, kind := range kinds {
		f := newField(message, name, kind)
		if kind == "-" {
			delete(fields, f.name)
			delete(fields, f.snake)
			continue
		}
		fields[f.name], fields[f.snake] = f, f
	}
}

func newField(message, name, kind string) *field {
	f := &field{name: name, snake: snakeCase(name)}
	kind, f.repeated = strings.CutPrefix(kind, "[]")
	if !f.repeated {
		kind, f.keys = strings.CutPrefix(kind, "map ")
	}
	if of, ok := strings.CutPrefix(kind, "enum "); ok {
		f.kind, f.of = "enum", of
	} else if _, ok := messages[kind]; ok {
		f.kind, f.of = "message", kind
	} else {
		f.kind = kind
	}
	if message == "Part" {
		for _, d := range partData {
			f.data = f.data || d == name
		}
	}
	return f
}

func snakeCase(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

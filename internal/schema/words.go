package schema

// A word is a keyword of JSON Schema, of one of its drafts or of the provider's own dialect. The zero word is any
// other name.
type word uint8

const (
	wUnknown word = iota

	// What the provider's schema message has.
	wType
	wDescription
	wTitle
	wNullable
	wEnum
	wProperties
	wRequired
	wItems
	wFormat
	wMinItems
	wMaxItems
	wMinProperties
	wMaxProperties
	wMinimum
	wMaximum
	wMinLength
	wMaxLength
	wPattern
	wExample
	wDefault
	wAnyOf
	wPropertyOrdering

	// What has to be said in another way.
	wOneOf
	wAllOf
	wConst
	wRef
	wDynamicRef
	wRecursiveRef
	wPrefixItems
	wIf
	wThen
	wElse
	wNot
	wContains
	wAdditionalProperties
	wUnevaluatedProperties
	wPatternProperties
	wPropertyNames
	wDependentRequired
	wDependentSchemas
	wDependencies
	wExclusiveMinimum
	wExclusiveMaximum
	wMultipleOf
	wUniqueItems
	wMinContains
	wMaxContains
	wContentEncoding
	wContentMediaType
	wExamples
	wEnumDescriptions
	wDeprecated
	wReadOnly
	wWriteOnly

	// What says nothing about values.
	wSchema
	wID
	wComment
	wAnchor
	wDynamicAnchor
	wVocabulary
	wDefs
	wDefinitions
	wAdditionalItems
	wUnevaluatedItems
	wContentSchema

	wordCount
)

var wordNames = [wordCount]string{
	wUnknown: "schema", // in changes: the whole of it
	wType:    "type", wDescription: "description", wTitle: "title", wNullable: "nullable", wEnum: "enum",
	wProperties: "properties", wRequired: "required", wItems: "items", wFormat: "format", wMinItems: "minItems",
	wMaxItems: "maxItems", wMinProperties: "minProperties", wMaxProperties: "maxProperties", wMinimum: "minimum",
	wMaximum: "maximum", wMinLength: "minLength", wMaxLength: "maxLength", wPattern: "pattern", wExample: "example",
	wDefault: "default", wAnyOf: "anyOf", wPropertyOrdering: "propertyOrdering",
	wOneOf: "oneOf", wAllOf: "allOf", wConst: "const", wRef: "$ref", wDynamicRef: "$dynamicRef",
	wRecursiveRef: "$recursiveRef", wPrefixItems: "prefixItems", wIf: "if", wThen: "then", wElse: "else", wNot: "not",
	wContains: "contains", wAdditionalProperties: "additionalProperties",
	wUnevaluatedProperties: "unevaluatedProperties", wPatternProperties: "patternProperties",
	wPropertyNames: "propertyNames", wDependentRequired: "dependentRequired", wDependentSchemas: "dependentSchemas",
	wDependencies: "dependencies", wExclusiveMinimum: "exclusiveMinimum", wExclusiveMaximum: "exclusiveMaximum",
	wMultipleOf: "multipleOf", wUniqueItems: "uniqueItems", wMinContains: "minContains", wMaxContains: "maxContains",
	wContentEncoding: "contentEncoding", wContentMediaType: "contentMediaType", wExamples: "examples",
	wEnumDescriptions: "enumDescriptions", wDeprecated: "deprecated", wReadOnly: "readOnly", wWriteOnly: "writeOnly",
	wSchema: "$schema", wID: "$id", wComment: "$comment", wAnchor: "$anchor", wDynamicAnchor: "$dynamicAnchor",
	wVocabulary: "$vocabulary", wDefs: "$defs", wDefinitions: "definitions", wAdditionalItems: "additionalItems",
	wUnevaluatedItems: "unevaluatedItems", wContentSchema: "contentSchema",
}

// lookup returns the word that a name is, and whether it is spelled in the way that protocol buffers spell it. It is
// a switch because the compiler makes a better table of one than a map is.
func lookup(name []byte) (w word, alias bool) {
	switch string(name) {
	case "type":
		return wType, false
	case "description":
		return wDescription, false
	case "title":
		return wTitle, false
	case "nullable":
		return wNullable, false
	case "enum":
		return wEnum, false
	case "properties":
		return wProperties, false
	case "required":
		return wRequired, false
	case "items":
		return wItems, false
	case "format":
		return wFormat, false
	case "minItems":
		return wMinItems, false
	case "maxItems":
		return wMaxItems, false
	case "minProperties":
		return wMinProperties, false
	case "maxProperties":
		return wMaxProperties, false
	case "minimum":
		return wMinimum, false
	case "maximum":
		return wMaximum, false
	case "minLength":
		return wMinLength, false
	case "maxLength":
		return wMaxLength, false
	case "pattern":
		return wPattern, false
	case "example":
		return wExample, false
	case "default":
		return wDefault, false
	case "anyOf":
		return wAnyOf, false
	case "propertyOrdering":
		return wPropertyOrdering, false
	case "oneOf":
		return wOneOf, false
	case "allOf":
		return wAllOf, false
	case "const":
		return wConst, false
	case "$ref":
		return wRef, false
	case "$dynamicRef":
		return wDynamicRef, false
	case "$recursiveRef":
		return wRecursiveRef, false
	case "prefixItems":
		return wPrefixItems, false
	case "if":
		return wIf, false
	case "then":
		return wThen, false
	case "else":
		return wElse, false
	case "not":
		return wNot, false
	case "contains":
		return wContains, false
	case "additionalProperties":
		return wAdditionalProperties, false
	case "unevaluatedProperties":
		return wUnevaluatedProperties, false
	case "patternProperties":
		return wPatternProperties, false
	case "propertyNames":
		return wPropertyNames, false
	case "dependentRequired":
		return wDependentRequired, false
	case "dependentSchemas":
		return wDependentSchemas, false
	case "dependencies":
		return wDependencies, false
	case "exclusiveMinimum":
		return wExclusiveMinimum, false
	case "exclusiveMaximum":
		return wExclusiveMaximum, false
	case "multipleOf":
		return wMultipleOf, false
	case "uniqueItems":
		return wUniqueItems, false
	case "minContains":
		return wMinContains, false
	case "maxContains":
		return wMaxContains, false
	case "contentEncoding":
		return wContentEncoding, false
	case "contentMediaType":
		return wContentMediaType, false
	case "examples":
		return wExamples, false
	case "enumDescriptions":
		return wEnumDescriptions, false
	case "deprecated":
		return wDeprecated, false
	case "readOnly":
		return wReadOnly, false
	case "writeOnly":
		return wWriteOnly, false
	case "$schema":
		return wSchema, false
	case "$id":
		return wID, false
	case "$comment":
		return wComment, false
	case "$anchor":
		return wAnchor, false
	case "$dynamicAnchor":
		return wDynamicAnchor, false
	case "$vocabulary":
		return wVocabulary, false
	case "$defs":
		return wDefs, false
	case "definitions":
		return wDefinitions, false
	case "additionalItems":
		return wAdditionalItems, false
	case "unevaluatedItems":
		return wUnevaluatedItems, false
	case "contentSchema":
		return wContentSchema, false
	case "any_of":
		return wAnyOf, true
	case "min_items":
		return wMinItems, true
	case "max_items":
		return wMaxItems, true
	case "min_length":
		return wMinLength, true
	case "max_length":
		return wMaxLength, true
	case "min_properties":
		return wMinProperties, true
	case "max_properties":
		return wMaxProperties, true
	case "property_ordering":
		return wPropertyOrdering, true
	}
	return wUnknown, false
}

// kept says whether the schema message of the family has the word for a plain value, to be passed on as it is.
func (r rules) kept(w word) bool {
	switch w {
	case wTitle:
		return true
	case wFormat, wMinItems, wMaxItems, wMinProperties, wMaxProperties, wMinimum, wMaximum, wMinLength, wMaxLength,
		wPattern, wExample, wPropertyOrdering:
		return r.family == Gemini
	}
	// The provider's message has a default, too, but the model never sees it. In the description it does.
	return false
}

// silent says whether leaving the word out changes nothing about what the schema says.
func silent(w word) bool { return w >= wSchema }

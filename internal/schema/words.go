package schema

import "perigee/internal/rawjson"

// A word is a keyword of JSON Schema, of one of its drafts or of the provider's own dialect. The zero word is any
// other name. A new one is a constant here and a row in words; their order is the order of changes.
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

// An entry is what is to be known about a word. The zero value of everything but the name is right for a keyword that
// the provider does not have and that can be said in words.
type entry struct {
	name  string
	alias string // the same in the way that protocol buffers spell it
	role  role

	kept  keeper // whose schema message has it for a plain value, to be passed on as it is
	takes shape  // the values that the provider can read there

	proves   rawjson.Kind // with a value of this kind only a schema has it
	noObject bool         // it takes no object: with a schema in it, it is a property that lost its "properties"
	implies  kind         // the type of a schema that has it and names none
}

var words = [wordCount]entry{
	wUnknown: {name: "schema", role: foreign, noObject: true}, // in changes: the whole of it

	// What the provider's schema message has.
	wType:             {name: "type", role: framed, proves: rawjson.Array, noObject: true},
	wDescription:      {name: "description", role: framed, noObject: true},
	wTitle:            {name: "title", noObject: true, kept: byAll, takes: aString},
	wNullable:         {name: "nullable", role: framed, noObject: true},
	wEnum:             {name: "enum", role: bringsEnum, proves: rawjson.Array, noObject: true},
	wProperties:       {name: "properties", role: framed, proves: rawjson.Object},
	wRequired:         {name: "required", role: framed, noObject: true},
	wItems:            {name: "items", role: framed},
	wFormat:           {name: "format", noObject: true, kept: byGemini, takes: aString, implies: kindString},
	wMinItems:         {name: "minItems", alias: "min_items", noObject: true, kept: byGemini, takes: aCount, implies: kindArray},
	wMaxItems:         {name: "maxItems", alias: "max_items", noObject: true, kept: byGemini, takes: aCount, implies: kindArray},
	wMinProperties:    {name: "minProperties", alias: "min_properties", noObject: true, kept: byGemini, takes: aCount, implies: kindObject},
	wMaxProperties:    {name: "maxProperties", alias: "max_properties", noObject: true, kept: byGemini, takes: aCount, implies: kindObject},
	wMinimum:          {name: "minimum", noObject: true, kept: byGemini, takes: aNumber, implies: kindNumber},
	wMaximum:          {name: "maximum", noObject: true, kept: byGemini, takes: aNumber, implies: kindNumber},
	wMinLength:        {name: "minLength", alias: "min_length", noObject: true, kept: byGemini, takes: aCount, implies: kindString},
	wMaxLength:        {name: "maxLength", alias: "max_length", noObject: true, kept: byGemini, takes: aCount, implies: kindString},
	wPattern:          {name: "pattern", noObject: true, kept: byGemini, takes: aString, implies: kindString},
	wExample:          {name: "example", kept: byGemini, takes: anything},
	wDefault:          {name: "default"},
	wAnyOf:            {name: "anyOf", alias: "any_of", role: bringsAnyOf, proves: rawjson.Array},
	wPropertyOrdering: {name: "propertyOrdering", alias: "property_ordering", kept: byGemini, takes: aList},

	// What has to be said in another way.
	wOneOf:                 {name: "oneOf", role: bringsOneOf, proves: rawjson.Array},
	wAllOf:                 {name: "allOf", role: bringsAllOf, proves: rawjson.Array},
	wConst:                 {name: "const", role: bringsConst},
	wRef:                   {name: "$ref", role: bringsRef, proves: rawjson.String, noObject: true},
	wDynamicRef:            {name: "$dynamicRef", role: bringsRef},
	wRecursiveRef:          {name: "$recursiveRef", role: bringsRef},
	wPrefixItems:           {name: "prefixItems", role: framed},
	wIf:                    {name: "if", role: bringsIf},
	wThen:                  {name: "then", role: bringsThen},
	wElse:                  {name: "else", role: bringsElse},
	wNot:                   {name: "not"},
	wContains:              {name: "contains", implies: kindArray},
	wAdditionalProperties:  {name: "additionalProperties", implies: kindObject},
	wUnevaluatedProperties: {name: "unevaluatedProperties"},
	wPatternProperties:     {name: "patternProperties", implies: kindObject},
	wPropertyNames:         {name: "propertyNames", implies: kindObject},
	wDependentRequired:     {name: "dependentRequired"},
	wDependentSchemas:      {name: "dependentSchemas", role: bringsDependentSchemas},
	wDependencies:          {name: "dependencies", role: bringsDependencies},
	wExclusiveMinimum:      {name: "exclusiveMinimum", implies: kindNumber},
	wExclusiveMaximum:      {name: "exclusiveMaximum", implies: kindNumber},
	wMultipleOf:            {name: "multipleOf", implies: kindNumber},
	wUniqueItems:           {name: "uniqueItems", implies: kindArray},
	wMinContains:           {name: "minContains"},
	wMaxContains:           {name: "maxContains"},
	wContentEncoding:       {name: "contentEncoding", implies: kindString},
	wContentMediaType:      {name: "contentMediaType", implies: kindString},
	wExamples:              {name: "examples"},
	wEnumDescriptions:      {name: "enumDescriptions"},
	wDeprecated:            {name: "deprecated", noObject: true},
	wReadOnly:              {name: "readOnly", noObject: true},
	wWriteOnly:             {name: "writeOnly"},

	// What says nothing about values.
	wSchema:           {name: "$schema", role: silent},
	wID:               {name: "$id", role: silent},
	wComment:          {name: "$comment", role: silent, noObject: true},
	wAnchor:           {name: "$anchor", role: silent},
	wDynamicAnchor:    {name: "$dynamicAnchor", role: silent},
	wVocabulary:       {name: "$vocabulary", role: silent},
	wDefs:             {name: "$defs", role: silent},
	wDefinitions:      {name: "definitions", role: silent},
	wAdditionalItems:  {name: "additionalItems", role: silent},
	wUnevaluatedItems: {name: "unevaluatedItems", role: silent},
	wContentSchema:    {name: "contentSchema", role: silent},
}

// A role is how a word has its say in a frame.
type role uint8

const (
	constrains role = iota // as a value that is passed on, or said in words
	framed                 // by a part of its own in the frame
	silent                 // not at all: leaving it out changes nothing about what the schema says
	foreign                // not at all, which is worth a note

	// By other nodes or values that it brings in, when all others have spoken.
	bringsEnum
	bringsConst
	bringsRef
	bringsAllOf
	bringsAnyOf
	bringsOneOf
	bringsIf
	bringsThen
	bringsElse
	bringsDependentSchemas
	bringsDependencies

	roleCount
)

// A keeper is whose schema message has a word. The provider's has a default, too, but the model never sees it; in the
// description it does.
type keeper uint8

const (
	byNobody keeper = iota
	byGemini
	byAll
)

func (r rules) kept(w word) bool {
	by := words[w].kept
	return by == byAll || by == byGemini && r.family == Gemini
}

// A shape is what the provider can read as the value of a word.
type shape uint8

const (
	nothing shape = iota
	aString
	aCount
	aNumber
	aList
	anything
)

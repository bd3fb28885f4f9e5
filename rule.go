package perigee

// A Handling says what becomes of a field of a client's request.
type Handling string

// The ways to handle a field.
const (
	HandlingCarried  Handling = "carried"  // the model sees it as the client meant it
	HandlingMapped   Handling = "mapped"   // the model sees the nearest thing; there is a note
	HandlingDropped  Handling = "dropped"  // it is not sent; there is a note
	HandlingAccepted Handling = "accepted" // it asks for nothing that could be missed: no note
	HandlingRefused  Handling = "refused"  // the request is an error
)

// A FieldRule documents one field of a dialect's requests. Dialects keep theirs as a table, from which
// docs/compatibility.md is made, and a test sends each Example to see that the table tells the truth.
type FieldRule struct {
	Field    string // as the client writes it: "tools[].strict"
	Handling Handling
	Becomes  string // where it goes, or why it does not
	Example  string // a whole request body that uses the field
}

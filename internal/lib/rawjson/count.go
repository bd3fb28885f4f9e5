package rawjson

import "fmt"

// A Count is the number of values in a text that cost memory when it is decoded. Elements are
// elements of arrays with at most ElementDepth containers around them: messages, blocks, parts,
// tools, and everything else that becomes a struct of its own. Deeper values are arguments, results
// and schemas, which are kept as JSON. Members are the members of all objects.
type Count struct {
	Elements int
	Members  int
}

// ElementDepth is how many arrays and objects are around the innermost element that counts: the
// root, messages, a message, its content, a result, its content.
const ElementDepth = 6

// The maximum memory of decoding, preparing and encoding for each value, its own bytes included, as
// measured in all dialects; and the memory that values may take in any text. Beyond that they may
// take two and three quarters of its size, which the rest of the text does, too.
const (
	elementCost = 1280
	storedCost  = 4800 // of an element that is also stored
	memberCost  = 48
	freeCost    = 36 << 20
)

// Err returns an error if decoding a text of that many bytes could take more than four times its
// size and 32 MB, else nil. The first elements and members are free: conversations of millions
// of tokens have fewer.
func (n Count) Err(bytes int) error { return n.err(bytes, elementCost) }

// ErrStored is Err for a text with elements that are stored as well, each with a name of its own.
func (n Count) ErrStored(bytes int) error { return n.err(bytes, storedCost) }

func (n Count) err(bytes, element int) error {
	// In 64 bits also where an int has 32.
	if int64(n.Elements)*int64(element)+int64(n.Members)*memberCost <= freeCost+int64(bytes)/4*11 {
		return nil
	}
	return fmt.Errorf("the body has %d list elements and %d members in %d bytes, which are too many small values",
		n.Elements, n.Members, bytes)
}

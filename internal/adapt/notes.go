package adapt

import "perigee"

// clip returns the first bytes of a word that the client chose, for notes.
func clip(word string) string { return perigee.Clip(word, 80) }

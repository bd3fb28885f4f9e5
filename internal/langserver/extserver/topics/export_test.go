package topics

// Remembered returns how many deleted rows are remembered.
func (s *Store) Remembered() int { return len(s.deleted) }

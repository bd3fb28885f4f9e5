package roster

// A Count is how many accounts there are.
type Count struct {
	States   map[string]int // of the enabled ones, by their state
	Disabled int            // by the owner
	Cooling  int            // enabled ones that have a cooldown
}

// Count counts the accounts. It reads memory only.
func (r *Roster) Count() Count {
	n := Count{States: map[string]int{}}
	for _, a := range r.pool.Status() {
		if !a.Enabled {
			n.Disabled++
			continue
		}
		n.States[a.State]++
		if len(a.Cooldowns) > 0 {
			n.Cooling++
		}
	}
	return n
}
